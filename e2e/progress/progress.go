// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package progress prints what a test is doing, and how long each step took.
package progress

import (
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/kind/pkg/log"
)

var (
	mu    sync.Mutex
	began           = time.Now()
	out   io.Writer = os.Stderr
)

// Printf prints a line with the time since the start of the program.
func Printf(format string, args ...any) {
	mu.Lock()
	defer mu.Unlock()
	since := time.Since(began).Round(time.Second)
	fmt.Fprintf(out, "%02d:%02d  %s\n", int(since.Minutes()), int(since.Seconds())%60, fmt.Sprintf(format, args...))
}

// announceAfter is how long a step may run before its start is printed.
const announceAfter = 2 * time.Second

// Step runs a step and prints how long it took. If it takes long, Step prints first that it has begun.
func Step(what string, do func() error) error {
	start := time.Now()
	announcement := time.AfterFunc(announceAfter, func() { Printf("%s ...", what) })
	err := do()
	announcement.Stop()
	took := time.Since(start).Round(100 * time.Millisecond)
	if err != nil {
		Printf("%s failed after %s", what, took)
		return fmt.Errorf("%s: %w", what, err)
	}
	Printf("%s: %s", what, took)
	return nil
}

// Require runs a step as Step does, and ends the test if it fails.
func Require(t testing.TB, what string, do func() error) {
	t.Helper()
	require.NoError(t, Step(what, do))
}

// Logger makes kind print only warnings and errors, because steps report the rest.
type Logger struct{ log.NoopLogger }

// Warn prints a warning.
func (Logger) Warn(message string) { Printf("kind: %s", message) }

// Warnf prints a warning.
func (l Logger) Warnf(format string, args ...any) { l.Warn(fmt.Sprintf(format, args...)) }

// Error prints an error.
func (Logger) Error(message string) { Printf("kind: %s", message) }

// Errorf prints an error.
func (l Logger) Errorf(format string, args ...any) { l.Error(fmt.Sprintf(format, args...)) }
