// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// The conditions under which a workload runs: alone, or beside a process that keeps caches and memory busy.
const (
	alone  = "none"
	memory = "memory"
	both   = "both"
)

const (
	// neighbourCommand makes this program the neighbour.
	neighbourCommand = "neighbour"
	// neighbourBytes is more than the caches of a processor hold.
	neighbourBytes = 256 << 20
)

// conditions returns the conditions that -neighbour selects.
func conditions(selected string) ([]string, error) {
	switch selected {
	case alone, memory:
		return []string{selected}, nil
	case both:
		return []string{alone, memory}, nil
	}
	return nil, fmt.Errorf("-neighbour must be %s, %s or %s, not %q", alone, memory, both, selected)
}

// neighbour is a process that competes with the servers for caches, memory and one CPU. It is paused except during beside.
type neighbour struct {
	command *exec.Cmd
	stdin   io.Closer
}

// startNeighbour starts the neighbour, and returns when its memory is filled.
func startNeighbour(ctx context.Context) (*neighbour, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	n := &neighbour{command: exec.CommandContext(ctx, program, neighbourCommand)}
	n.command.Stderr = os.Stderr
	if n.stdin, err = n.command.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := n.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := n.command.Start(); err != nil {
		return nil, fmt.Errorf("cannot start the neighbour: %w", err)
	}
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		return nil, errors.Join(fmt.Errorf("the neighbour does not start: %w", err), n.close())
	}
	return n, n.command.Process.Signal(syscall.SIGSTOP)
}

// beside runs a function while the neighbour runs.
func (n *neighbour) beside(do func() error) error {
	if err := n.command.Process.Signal(syscall.SIGCONT); err != nil {
		return fmt.Errorf("the neighbour has ended: %w", err)
	}
	return errors.Join(do(), n.command.Process.Signal(syscall.SIGSTOP))
}

// close ends the neighbour.
func (n *neighbour) close() error {
	_ = n.stdin.Close()                           // what counts is that it ends
	_ = n.command.Process.Signal(syscall.SIGKILL) // it may have ended
	_ = n.command.Wait()                          // the error is that it was killed
	return nil
}

// beNeighbour alternates between streaming through memory and following pointers in it, until standard input ends.
func beNeighbour() {
	runtime.GOMAXPROCS(2) // one of them waits for the end
	next := cycle(neighbourBytes / 4)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	fmt.Println("ready")
	for at := uint32(0); ; {
		for range len(next) / 64 {
			at = next[at]
		}
		for i := range next {
			at ^= next[i]
		}
		at %= uint32(len(next))
	}
}

// cycle returns a permutation of one cycle (Sattolo's algorithm): each entry is the index of the next.
func cycle(n int) []uint32 {
	next := make([]uint32, n)
	for i := range next {
		next[i] = uint32(i)
	}
	for i := n - 1; i > 0; i-- {
		j := rand.IntN(i)
		next[i], next[j] = next[j], next[i]
	}
	return next
}
