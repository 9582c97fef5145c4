// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

const (
	startProbeInterval = 100 * time.Millisecond
	probeTimeout       = 5 * time.Second
	// stableAfter is how long a child must run until its next restart waits no longer than the first one.
	stableAfter = time.Minute
)

// Child is a process that is started again whenever it dies.
type Child struct {
	process Process
	notify  func(Event)
	failed  chan<- error
	stop    context.CancelFunc
	// ready is closed when the child is ready for the first time, gaveUp when its group gives it up, and done when it has stopped.
	ready, gaveUp, done chan struct{}

	mu        sync.Mutex
	pid       int
	everReady bool
	isReady   bool
	message   string
	version   string
	startTime time.Time
	starts    int
	// failure is why the group gave the child up.
	failure error
}

func start(process Process, notify func(Event), failed chan<- error) *Child {
	ctx, cancel := context.WithCancel(context.Background())
	c := &Child{
		process: process.withDefaults(),
		notify:  notify,
		failed:  failed,
		stop:    cancel,
		ready:   make(chan struct{}),
		gaveUp:  make(chan struct{}),
		done:    make(chan struct{}),
		message: "starting",
	}
	go c.keepRunning(ctx)
	return c
}

// Stop ends the child and returns when it has ended.
func (c *Child) Stop() {
	c.stop()
	<-c.done
}

// Status returns the present state of the child.
func (c *Child) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Status{
		Component:           c.process.Component,
		Replica:             c.process.Replica,
		PID:                 c.pid,
		Address:             c.process.Address,
		Ready:               c.isReady,
		Message:             c.message,
		Version:             c.version,
		StartTime:           c.startTime,
		Restarts:            max(c.starts-1, 0),
		ResidentMemoryBytes: residentMemory(c.pid),
		CPUSeconds:          cpuSeconds(c.pid),
	}
}

// keepRunning starts the process again and again, until ctx ends or too many starts fail. The parent-death signal is bound to the thread
// that forked the child. So this goroutine keeps its thread as long as there may be a child.
func (c *Child) keepRunning(ctx context.Context) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(c.done)

	backoff := c.process.Backoff
	for failures := 1; ; failures++ {
		began := time.Now()
		err := c.runOnce(ctx)
		ran := time.Since(began)
		if ctx.Err() != nil {
			return
		}
		if !c.wasReady() && failures >= c.process.FailedStarts {
			c.giveUp(err)
			return
		}
		if ran > stableAfter {
			backoff = c.process.Backoff
		}
		c.setDown(fmt.Sprintf("restarts in %s: %v", Seconds(backoff), err))
		c.emit(Event{Type: Exited, After: ran, RestartIn: backoff, Err: err})
		select {
		case <-ctx.Done():
			return
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// runOnce runs the process until it exits or ctx ends and returns why it exited.
func (c *Child) runOnce(ctx context.Context) error {
	if c.process.Check != nil {
		if err := c.process.Check(); err != nil {
			return err
		}
	}
	stdout, stderr, err := c.process.Output.Open()
	if err != nil {
		return err
	}
	defer c.process.Output.Close() //nolint:errcheck // a log that cannot be closed is no reason to fail

	asked := time.Now()
	cmd := exec.CommandContext(ctx, c.process.Path, c.process.Args...)
	cmd.Env = Environment(c.process.Env...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.SysProcAttr = ChildAttributes()
	cmd.WaitDelay = c.process.StopTimeout
	cmd.Cancel = func() error {
		asked = time.Now()
		c.emit(Event{Type: Stopping})
		return cmd.Process.Signal(syscall.SIGTERM)
	}
	if c.process.BeforeStart != nil {
		c.process.BeforeStart()
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot run %s: %w", c.process.Path, err)
	}
	c.setStarted(cmd.Process.Pid)
	c.emit(Event{Type: Started, PID: cmd.Process.Pid})

	probing, stopProbing := context.WithCancel(ctx)
	var probes sync.WaitGroup
	probes.Go(func() { c.watchReadiness(probing) })
	err = cmd.Wait()
	stopProbing()
	probes.Wait()
	if ctx.Err() != nil {
		c.setDown("stopped")
		c.emit(Event{Type: Stopped, After: time.Since(asked), Err: killed(cmd.ProcessState, c.process.StopTimeout)})
		return nil
	}
	return exitError(err, cmd.ProcessState, c.process.Output.Tail())
}

// watchReadiness follows the readiness of the running process.
func (c *Child) watchReadiness(ctx context.Context) {
	since := time.Now() // when the process started, or was lost
	ready, again := false, false
	for {
		probe, cancel := context.WithTimeout(ctx, probeTimeout)
		err := c.process.Ready(probe)
		cancel()
		if ctx.Err() != nil {
			return
		}
		c.setReady(err)
		switch {
		case err == nil && !ready:
			ready = true
			c.emit(Event{Type: Ready, After: time.Since(since), Again: again})
			c.setEverReady()
			c.setVersion(c.process.Version(ctx))
		case err != nil && ready:
			ready, again, since = false, true, time.Now()
			c.emit(Event{Type: NotReady, Err: err})
		}
		interval := startProbeInterval
		if ready {
			interval = c.process.ReadyInterval
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval):
		}
	}
}

func (c *Child) emit(e Event) {
	e.Component, e.Replica = c.process.Component, c.process.Replica
	c.notify(e)
}

func (c *Child) wasReady() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.everReady
}

func (c *Child) giveUp(err error) {
	failure := fmt.Errorf("%s cannot start: %w", cmp.Or(c.process.Replica, c.process.Component), err)
	c.setDown(err.Error())
	c.mu.Lock()
	c.failure = failure
	c.mu.Unlock()
	c.emit(Event{Type: GaveUp, Err: err})
	close(c.gaveUp)
	select {
	case c.failed <- failure:
	default: // another child failed first
	}
}

// waitReady returns when the child was ready. It returns an error when the child is given up or ctx ends.
func (c *Child) waitReady(ctx context.Context) error {
	select {
	case <-c.ready:
		return nil
	case <-c.gaveUp:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.failure
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Child) setStarted(pid int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pid, c.startTime, c.message = pid, time.Now(), "starting"
	c.starts++
}

func (c *Child) setDown(message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pid, c.isReady, c.message = 0, false, message
}

func (c *Child) setVersion(version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version = version
}

// setReady records the answer of a probe.
func (c *Child) setReady(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.isReady, c.message = false, err.Error()
		return
	}
	c.isReady, c.message = true, ""
}

// setEverReady wakes those who wait for the child.
func (c *Child) setEverReady() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.everReady {
		c.everReady = true
		close(c.ready)
	}
}

// exitError describes the end of a process in one line: its own error if it gave up, and otherwise how it ended. A killed process had no
// last words; nothing in its log is the reason.
func exitError(err error, state *os.ProcessState, tail []string) error {
	switch {
	case err == nil:
		return errors.New("exited without an error")
	case state != nil && state.Exited():
		if line := errorLine(tail); line != "" {
			return errors.New(line)
		}
	}
	return err
}

// killed returns an error if the process had to be killed.
func killed(state *os.ProcessState, after time.Duration) error {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
		return fmt.Errorf("killed, because it did not end within %s", after)
	}
	return nil
}
