// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// readyLine starts the line that `tripod up` prints when everything is ready.
const readyLine = "Tripod is ready"

// TripodOptions configures how to start Tripod.
type TripodOptions struct {
	// Args are additional flags of `tripod up`.
	Args []string
	// DataDir is the data directory, by default a new one. A second start finds the data of the first.
	DataDir string
	// Port is the port of the API, by default a free one.
	Port int
	// Env is added to the environment.
	Env []string
	// Binary is another tripod, such as one of an older version. Empty is that in bin/.
	Binary string
}

// Tripod is a running `tripod up`.
type Tripod struct {
	*Cluster
	// Process is `tripod up`. Its log has what a user sees.
	Process *Process

	binary string
}

// ComponentStatus is one entry of `tripod status -o json`.
type ComponentStatus struct {
	Component           string    `json:"component"`
	Replica             string    `json:"replica"`
	PID                 int       `json:"pid"`
	Address             string    `json:"address"`
	Ready               bool      `json:"ready"`
	Message             string    `json:"message"`
	Version             string    `json:"version"`
	StartTime           time.Time `json:"startTime"`
	Restarts            int       `json:"restarts"`
	ResidentMemoryBytes int64     `json:"residentMemoryBytes"`
	// Requests and Share are nil if unknown.
	Requests *int64   `json:"requests"`
	Share    *float64 `json:"share"`
}

// aggregatorFlags are additional flags of every aggregator in a run: those in TEST_AGGREGATOR_FLAGS.
func aggregatorFlags() []string { return strings.Fields(os.Getenv("TEST_AGGREGATOR_FLAGS")) }

// Partitions are partitions of extensions in every `tripod up` of a run: those in TEST_EXTENSIONS_PARTITIONS.
func Partitions() []string { return strings.Fields(os.Getenv("TEST_EXTENSIONS_PARTITIONS")) }

// StartTripod runs `tripod up` and returns when it prints that it is ready.
func (e *Environment) StartTripod(ctx context.Context, options TripodOptions) (*Tripod, error) {
	dir, err := e.newDir("tripod")
	if err != nil {
		return nil, err
	}
	if options.DataDir == "" {
		options.DataDir = filepath.Join(dir, "data")
	}
	if options.Port == 0 {
		if options.Port, err = FreePort(); err != nil {
			return nil, err
		}
	}
	t := &Tripod{binary: cmp.Or(options.Binary, e.Binary("tripod")), Cluster: &Cluster{
		Name:       "tripod",
		URL:        fmt.Sprintf("https://127.0.0.1:%d", options.Port),
		DataDir:    options.DataDir,
		PKI:        filepath.Join(options.DataDir, "pki"),
		Kubeconfig: filepath.Join(options.DataDir, "kubeconfig"),
	}}
	t.etcd = t.embeddedEtcd
	args := []string{"up", "--data-dir", options.DataDir, "--port", strconv.Itoa(options.Port)}
	for _, flag := range aggregatorFlags() {
		args = append(args, "--aggregator-arg="+flag)
	}
	for _, partition := range Partitions() {
		args = append(args, "--extensions-partition="+partition)
	}
	kine, err := e.kineOf(ctx, dir, options.Args)
	if err != nil {
		return nil, err
	}
	if kine != "" {
		t.etcd = plainEtcd(kine)
		args = append(args, "--etcd-servers="+kine)
	}
	ready := newLineWatch(readyLine)
	t.Process, err = e.Start(Command{
		Name: "tripod", Path: t.binary, Dir: dir, Output: ready, Env: options.Env,
		Args: append(args, options.Args...),
	})
	if err != nil {
		return nil, err
	}
	e.own(func() error { return nil }, filepath.Base(dir), t.Log("*"))
	select {
	case <-ready.seen:
	case <-t.Process.Done():
		return nil, t.Process.ended()
	case <-ctx.Done():
		return nil, fmt.Errorf("tripod is not ready: %w:\n%s", ctx.Err(), tail(t.Process.Log))
	}
	t.users, err = newUsers(filepath.Join(dir, "users"), t.PKI)
	return t, err
}

// Log returns the path of the log of a replica, such as core-0.
func (t *Tripod) Log(replica string) string {
	return filepath.Join(t.DataDir, "logs", replica+".log")
}

// Stop stops Tripod as its user does with Ctrl-C.
func (t *Tripod) Stop() error { return t.Process.Stop() }

// Status returns the output of `tripod status -o json`.
func (t *Tripod) Status(ctx context.Context) ([]ComponentStatus, error) {
	output, err := t.command(ctx, "status", "-o", "json")
	if err != nil {
		return nil, err
	}
	var status []ComponentStatus
	if err := json.Unmarshal(output, &status); err != nil {
		return nil, fmt.Errorf("tripod status: %w in %s", err, output)
	}
	return status, nil
}

// Scale runs `tripod scale`, which returns when the service has n replicas.
func (t *Tripod) Scale(ctx context.Context, service string, n int) error {
	_, err := t.command(ctx, "scale", service, "--replicas", strconv.Itoa(n))
	return err
}

// command runs a command of tripod for this instance.
func (t *Tripod) command(ctx context.Context, args ...string) ([]byte, error) {
	output, err := exec.CommandContext(ctx, t.binary, append(args, "--data-dir", t.DataDir)...).Output()
	if err == nil {
		return output, nil
	}
	what := "tripod " + strings.Join(args, " ")
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, fmt.Errorf("%s: %w: %s", what, err, exit.Stderr)
	}
	return nil, fmt.Errorf("%s: %w", what, err)
}

// Replicas returns the status of all replicas of a component.
func (t *Tripod) Replicas(ctx context.Context, component string) ([]ComponentStatus, error) {
	all, err := t.Status(ctx)
	return slices.DeleteFunc(all, func(s ComponentStatus) bool { return s.Component != component }), err
}

// Component returns the status of a replica, such as core-1, or of the first replica of a component.
func (t *Tripod) Component(ctx context.Context, component string) (ComponentStatus, error) {
	all, err := t.Status(ctx)
	if err != nil {
		return ComponentStatus{}, err
	}
	for _, status := range all {
		if status.Component == component || status.Replica == component {
			return status, nil
		}
	}
	return ComponentStatus{}, fmt.Errorf("tripod status has no component %s: %v", component, all)
}

// Kill kills a component (see Component) with SIGKILL, and returns when Tripod has noticed. WaitReady then waits for the restart.
func (t *Tripod) Kill(ctx context.Context, component string) error {
	before, err := t.Component(ctx, component)
	if err != nil {
		return err
	}
	if before.PID <= 0 {
		return fmt.Errorf("%s is not running: %s", component, before.Message)
	}
	if err := syscall.Kill(before.PID, syscall.SIGKILL); err != nil {
		return fmt.Errorf("cannot kill %s: %w", component, err)
	}
	return t.Process.until(ctx, "death of "+component+" noticed", func(ctx context.Context) error {
		now, err := t.Component(ctx, component)
		if err == nil && now.PID == before.PID && now.Ready {
			err = fmt.Errorf("pid %d is still shown as ready", now.PID)
		}
		return err
	})
}

// Restart stops a replica in order, as its user might, and returns when a new process of the program that is installed now is ready in its
// place.
func (t *Tripod) Restart(ctx context.Context, replica string) error {
	before, err := t.Component(ctx, replica)
	if err != nil {
		return err
	}
	if err := syscall.Kill(before.PID, syscall.SIGTERM); err != nil {
		return fmt.Errorf("cannot stop %s: %w", replica, err)
	}
	return t.Process.until(ctx, replica+" is back", func(ctx context.Context) error {
		now, err := t.Component(ctx, replica)
		if err == nil && (now.PID == before.PID || !now.Ready) {
			err = fmt.Errorf("pid %d, ready: %v, %s", now.PID, now.Ready, now.Message)
		}
		return err
	})
}

// WaitReady returns when every component is ready.
func (t *Tripod) WaitReady(ctx context.Context) error {
	return t.Process.until(ctx, "every component is ready", func(ctx context.Context) error {
		all, err := t.Status(ctx)
		if err != nil {
			return err
		}
		for _, status := range all {
			if !status.Ready {
				return fmt.Errorf("%s is not ready: %s", status.Replica, status.Message)
			}
		}
		return nil
	})
}

// lineWatch is a writer that notices a line with a prefix.
type lineWatch struct {
	prefix string
	seen   chan struct{}
	once   sync.Once
	line   []byte
}

func newLineWatch(prefix string) *lineWatch {
	return &lineWatch{prefix: prefix, seen: make(chan struct{})}
}

func (w *lineWatch) Write(data []byte) (int, error) {
	for chunk := range bytes.Lines(data) {
		w.line = append(w.line, chunk...)
		if !bytes.HasSuffix(chunk, []byte("\n")) {
			break
		}
		if strings.HasPrefix(string(w.line), w.prefix) {
			w.once.Do(func() { close(w.seen) })
		}
		w.line = w.line[:0]
	}
	return len(data), nil
}
