// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/tripod-k8s/tripod/test/framework"
)

// supervise restarts a process that ended on its own, like a kubelet.
func (c *cluster) supervise(ctx context.Context, name string) {
	for ctx.Err() == nil {
		select {
		case <-c.process(name).Done():
			sleep(ctx, restartAfter)
			c.restart(ctx, name)
		case <-ctx.Done():
		}
	}
}

// process returns the current process of a replica.
func (c *cluster) process(name string) *framework.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.replicas[name].Process()
}

func (c *cluster) restart(ctx context.Context, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.replicas[name].Process().Done():
	default:
		return
	}
	if !c.held[name] && ctx.Err() == nil && c.replicas[name].Start() == nil {
		c.restarts++
	}
}

// kill kills replicas. They stay away until revive.
func (c *cluster) kill(names ...string) error {
	var errs []error
	for _, name := range names {
		c.mu.Lock()
		c.held[name] = true
		c.mu.Unlock()
		errs = append(errs, c.replicas[name].Kill())
	}
	return errors.Join(errs...)
}

func (c *cluster) revive(names ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, name := range names {
		delete(c.held, name)
		errs = append(errs, c.replicas[name].Start())
	}
	return errors.Join(errs...)
}

// program is a process that is not a replica of a fleet.
type program struct {
	environment *framework.Environment
	command     framework.Command
	starts      int
	process     *framework.Process
}

// program starts a program on a host.
func (c *cluster) program(h *host, name, binary string, args ...string) (*program, error) {
	dir := filepath.Join(c.environment.Dir, "log-"+name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	command := slices.Concat(h.wrap(), []string{c.environment.Binary(binary)}, args)
	p := &program{environment: c.environment, command: framework.Command{Name: name, Path: command[0], Args: command[1:], Dir: dir}}
	c.replicas[name] = p
	return p, p.Start()
}

// Start implements replica.
func (p *program) Start() (err error) {
	p.starts++
	command := p.command
	command.Name = fmt.Sprintf("%s.%d", command.Name, p.starts)
	process, err := p.environment.Start(command)
	if err == nil {
		p.process = process
	}
	return err
}

// Process implements replica.
func (p *program) Process() *framework.Process { return p.process }

// Kill implements replica.
func (p *program) Kill() error {
	err := p.process.Signal(syscall.SIGKILL)
	if err == nil || errors.Is(err, os.ErrProcessDone) {
		<-p.process.Done()
		return nil
	}
	return err
}

// Pause implements replica.
func (p *program) Pause() error { return p.process.Pause() }

// Resume implements replica.
func (p *program) Resume() error { return p.process.Signal(syscall.SIGCONT) }
