// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tripod-k8s/tripod/local/process"
)

const (
	// stopTimeout is how long a process may take to stop after SIGTERM.
	stopTimeout = time.Minute
	// tailBytes is how much of a log an error quotes if a process ended by itself.
	tailBytes = 4 << 10
)

// Process is a child of the test. It is killed when the test dies.
type Process struct {
	// Log is the file with the output of the process.
	Log string
	// Started is when the process was started.
	Started time.Time

	name string
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// Command is which program to start as a [Process].
type Command struct {
	// Name is the name of the process in errors and of its log file.
	Name string
	Path string
	Args []string
	// Env is added to the environment of the test.
	Env []string
	// Dir is the directory of the log file.
	Dir string
	// Output also gets the output of the process. It may be nil.
	Output io.Writer
}

// Start starts the program.
func (c Command) Start() (*Process, error) {
	log, err := os.Create(filepath.Join(c.Dir, c.Name+".log"))
	if err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", c.Name, err)
	}
	p := &Process{Log: log.Name(), Started: time.Now(), name: c.Name, done: make(chan struct{}), cmd: exec.Command(c.Path, c.Args...)}
	p.cmd.Env = append(os.Environ(), c.Env...)
	p.cmd.Stdout = io.Writer(log)
	if c.Output != nil {
		p.cmd.Stdout = io.MultiWriter(log, c.Output)
	}
	p.cmd.Stderr = p.cmd.Stdout
	p.cmd.SysProcAttr = process.ChildAttributes()

	started := make(chan error)
	go func() {
		// The parent-death signal is bound to the thread that started the process. So that thread must live as long as the process.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer log.Close() //nolint:errcheck // what the process wrote is on disk
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("cannot start %s (make build test-assets?): %w", c.Name, err)
	}
	return p, nil
}

// PID returns the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// ExitCode returns the exit code of a process that has ended, or -1 if a signal ended it.
func (p *Process) ExitCode() int {
	<-p.done
	return p.cmd.ProcessState.ExitCode()
}

// Signal sends the process a signal.
func (p *Process) Signal(signal os.Signal) error { return p.cmd.Process.Signal(signal) }

// Pause stops the process by SIGSTOP, and returns when all of its threads have stopped. SIGCONT continues it.
func (p *Process) Pause() error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return Poll(context.Background(), "all threads have stopped", func(context.Context) error {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.PID()))
		if err != nil {
			return err
		}
		for _, thread := range threads {
			stat, err := os.ReadFile(thread)
			// The state follows the name of the program, in parentheses (proc_pid_stat(5)).
			if _, state, found := strings.Cut(string(stat), ") "); err == nil && found && strings.ContainsAny(state[:1], "RSD") {
				return fmt.Errorf("a thread runs or waits: %s", stat)
			}
		}
		return nil
	})
}

// Stop stops the process with SIGTERM, and kills it if it does not stop in time.
func (p *Process) Stop() error {
	if err := p.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("cannot stop %s: %w", p.name, err)
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(stopTimeout):
		err := p.cmd.Process.Kill()
		<-p.done
		return errors.Join(fmt.Errorf("%s did not stop within %s of SIGTERM", p.name, stopTimeout), err)
	}
}

// ended returns the error for a process that should still run.
func (p *Process) ended() error {
	<-p.done
	return fmt.Errorf("%s ended (%v):\n%s", p.name, p.cmd.ProcessState, tail(p.Log))
}

// until calls condition until it returns nil. It fails at once if the process ends.
func (p *Process) until(ctx context.Context, what string, condition func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-p.done:
			cancel(p.ended())
		case <-ctx.Done():
		}
	})
	err := Poll(ctx, what, condition)
	if err != nil && context.Cause(ctx) != nil && !errors.Is(context.Cause(ctx), context.Canceled) {
		err = context.Cause(ctx)
	}
	cancel(nil)
	watching.Wait()
	return err
}

// tail returns the end of a file, for people to read.
func tail(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	if len(data) > tailBytes {
		data = data[len(data)-tailBytes:]
	}
	return strings.TrimSpace(string(data))
}

// PeakMemory returns the most memory that the process has taken, in bytes, without the pages of its binary, which the kernel can drop.
func (p *Process) PeakMemory() (uint64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	size := map[string]uint64{}
	for line := range strings.Lines(string(text)) {
		var name string
		var n uint64
		if _, err := fmt.Sscan(line, &name, &n); err == nil {
			size[name] = n << 10
		}
	}
	return size["VmHWM:"] - size["RssFile:"], err
}
