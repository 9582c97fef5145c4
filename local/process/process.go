// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"time"
)

// Defaults for zero fields of Process.
const (
	defaultFailedStarts  = 3
	defaultReadyInterval = 2 * time.Second
	defaultStopTimeout   = 15 * time.Second
	defaultBackoff       = 500 * time.Millisecond
	maxBackoff           = 30 * time.Second
)

// Process says how to run one child.
type Process struct {
	// Component and Replica name the child, such as "core" and "core-0". Replica may be empty if there is only one.
	Component, Replica string
	// Path is the binary. Args are its arguments, without the name of the program.
	Path string
	Args []string
	// Env is added to the [Environment] of children.
	Env []string
	// Address is where the child serves, for people to read.
	Address string
	// Check, if set, is called before each start of the binary. It returns why the binary must not run.
	Check func() error
	// BeforeStart, if set, is called before each start of the binary.
	BeforeStart func()
	// Output takes what the child writes.
	Output Output
	// Ready returns nil if the child serves, and otherwise what it waits for.
	Ready func(context.Context) error
	// ReadyInterval is the time between two questions while the child is ready. The default is 2 s.
	ReadyInterval time.Duration
	// Version returns the version of the running child, or "" if unknown.
	Version func(context.Context) string
	// FailedStarts is how often in a row the child may exit before it is first ready; then the group gives it up. The group restarts a
	// child that was ready once for as long as it runs. The default is 3.
	FailedStarts int
	// StopTimeout is how long the child may take to end after SIGTERM before it is killed. The default is 15 s.
	StopTimeout time.Duration
	// Backoff is the wait before the first restart. It doubles up to 30 s. The default is 500 ms.
	Backoff time.Duration
}

func (p Process) withDefaults() Process {
	if p.FailedStarts == 0 {
		p.FailedStarts = defaultFailedStarts
	}
	if p.ReadyInterval == 0 {
		p.ReadyInterval = defaultReadyInterval
	}
	if p.StopTimeout == 0 {
		p.StopTimeout = defaultStopTimeout
	}
	if p.Backoff == 0 {
		p.Backoff = defaultBackoff
	}
	return p
}

// Status is the state of a child, as `tripod status` shows it.
type Status struct {
	Component string `json:"component"`
	Replica   string `json:"replica"`
	// PID is 0 while the child waits to be restarted.
	PID     int    `json:"pid"`
	Address string `json:"address"`
	Ready   bool   `json:"ready"`
	// Message says why a child is not ready.
	Message   string    `json:"message"`
	Version   string    `json:"version"`
	StartTime time.Time `json:"startTime"`
	Restarts  int       `json:"restarts"`
	// ResidentMemoryBytes is 0 if the operating system does not report it.
	ResidentMemoryBytes int64 `json:"residentMemoryBytes"`
	// CPUSeconds is the processor time of the process, or 0 if the operating system does not report it.
	CPUSeconds float64 `json:"cpuSeconds"`
}
