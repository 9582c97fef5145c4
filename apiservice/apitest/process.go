// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"bytes"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// waitDelay is how long the output of a process that has ended may still be open in a process that it has left behind.
const waitDelay = 5 * time.Second

// process is a running `tripod up`.
type process struct {
	command *exec.Cmd
	// announced is closed when the process has printed a line with the expected beginning, and ended with err when it has ended.
	announced, ended chan struct{}
	err              error

	mu       sync.Mutex
	expected string
	text     bytes.Buffer
}

func startProcess(command *exec.Cmd, expected string) (*process, error) {
	p := &process{command: command, announced: make(chan struct{}), ended: make(chan struct{}), expected: expected}
	command.Stdout, command.Stderr, command.SysProcAttr = p, p, attributes()
	command.WaitDelay = waitDelay
	started := make(chan error)
	go func() {
		// The parent-death signal is bound to the thread that started the process. So that thread must live as long as the process.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := command.Start()
		started <- err
		if err == nil {
			p.err = command.Wait()
			close(p.ended)
		}
	}()
	return p, <-started
}

// Write takes what the process prints.
func (p *process) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text.Write(text)
	if p.expected != "" && strings.Contains("\n"+p.text.String(), "\n"+p.expected) {
		p.expected = ""
		close(p.announced)
	}
	return len(text), nil
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// stop ends the process in order, and kills it if that takes longer than waitTimeout.
func (p *process) stop(waitTimeout time.Duration) {
	_ = p.command.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.ended:
	case <-time.After(waitTimeout):
		_ = p.command.Process.Kill()
		<-p.ended
	}
}
