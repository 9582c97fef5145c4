// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/local/process"
)

// giveUp ends a wait that would otherwise never end. It says nothing about speed.
const giveUp = 30 * time.Second

// world is a fleet of shell scripts, and the order of what happens to it.
type world struct {
	*Fleet
	t   *testing.T
	dir string
	// scripts are those of replicas that do not simply serve, and refused those that have no process.
	scripts map[string]string
	refused map[string]error
	// useFails is what Use returns.
	useFails error

	mu  sync.Mutex
	log []string
}

// serving is a script that is ready until it gets SIGTERM. $0 is the file that exists while it is ready.
const serving = `trap 'exit 0' TERM; touch $0; while :; do sleep 0.01; done`

func newWorld(t *testing.T) *world {
	w := &world{t: t, dir: t.TempDir(), scripts: map[string]string{}, refused: map[string]error{}}
	group := process.NewGroup(func(e process.Event) {
		if e.Type == process.Ready || e.Type == process.Stopping {
			w.happened(e.Replica + map[process.EventType]string{process.Ready: " ready", process.Stopping: " stopping"}[e.Type])
		}
	})
	w.Fleet = NewFleet(group, FleetConfig{
		Process: w.process,
		Use: func() error {
			w.happened("use " + strings.Join(w.used(), " "))
			return w.useFails
		},
		Report: func(string, string) {},
	})
	t.Cleanup(w.Stop)
	return w
}

func (w *world) process(r *Replica, number int) (process.Process, error) {
	if want := fmt.Sprintf("%s-%d", r.Service, number); r.Name != want {
		w.t.Errorf("replica %d is called %s, want %s", number, r.Name, want)
	}
	script := serving
	if other, ok := w.scripts[r.Name]; ok {
		script = other
	}
	ready := filepath.Join(w.dir, r.Name)
	return process.Process{
		Component: r.Service, Replica: r.Name, Path: "/bin/sh", Args: []string{"-c", script, ready},
		Output: process.NewLogFile(ready + ".log"),
		Ready: func(context.Context) error {
			_, err := os.Stat(ready)
			return err
		},
		Version:      func(context.Context) string { return "" },
		FailedStarts: 1,
	}, w.refused[r.Name]
}

func (w *world) happened(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, what)
}

// since returns what happened since the last call.
func (w *world) since() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.log = nil }()
	return w.log
}

func names(replicas []*Replica) []string {
	var list []string
	for _, r := range replicas {
		list = append(list, r.Name)
	}
	return list
}

func (w *world) used() []string { return append(names(w.Used("core")), names(w.Used("aggregator"))...) }

func (w *world) running() []string {
	var list []string
	for _, status := range w.group.Statuses() {
		list = append(list, status.Replica)
	}
	return list
}

func (w *world) expect(when string, got []string, want ...string) {
	w.t.Helper()
	if !slices.Equal(got, want) {
		w.t.Errorf("%s: %q, want %q", when, got, want)
	}
}

// start starts the fleet with as many replicas of core, and one aggregator.
func (w *world) start(cores int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), giveUp)
	defer cancel()
	children, err := w.Start([]Count{{"core", cores}, {"aggregator", 1}})
	if err == nil {
		err = w.AwaitReady(ctx, children...)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) scale(n int) error {
	ctx, cancel := context.WithTimeout(w.t.Context(), giveUp)
	defer cancel()
	return w.Scale(ctx, "core", n)
}

func TestReplicasOfAStartAreUsedAtOnce(t *testing.T) {
	w := newWorld(t)
	w.start(2)
	log := w.since()
	w.expect("first", log[:1], "use core-0 core-1 aggregator-0")
	w.expect("running", w.running(), "core-0", "core-1", "aggregator-0")
	if ready, unready := w.Ready("core"); len(ready) != 2 || len(unready) != 0 {
		t.Errorf("%q are ready and %q are not", names(ready), names(unready))
	}
}

func TestNewReplicasAreUsedWhenTheyAreReady(t *testing.T) {
	w := newWorld(t)
	w.start(1)
	w.since()
	require.NoError(t, w.scale(2))
	w.expect("order", w.since(), "core-1 ready", "use core-0 core-1 aggregator-0")
	require.NoError(t, w.scale(4))
	w.expect("used", w.used(), "core-0", "core-1", "core-2", "core-3", "aggregator-0")
	w.expect("running", w.running(), "core-0", "core-1", "core-2", "core-3", "aggregator-0")
	w.since()
	require.NoError(t, w.scale(4))
	w.expect("what happened for as many as there are", w.since())
}

func TestReplicasAreNotUsedAnyMoreWhenTheyStop(t *testing.T) {
	w := newWorld(t)
	w.start(3)
	w.since()
	require.NoError(t, w.scale(1))
	w.expect("order", w.since(), "use core-0 aggregator-0", "core-2 stopping", "core-1 stopping")
	w.expect("running", w.running(), "core-0", "aggregator-0")
	require.NoError(t, w.scale(2))
	w.expect("used after one was started again", w.used(), "core-0", "core-1", "aggregator-0")
}

func TestReplicasThatCannotStartAreGivenUp(t *testing.T) {
	w := newWorld(t)
	w.start(1)
	for _, tc := range []struct {
		name, script string
		refused      error
		want         string
		used         []string
	}{
		{"no process", "", errors.New("port 6444 is already in use"), "core-2 cannot start: port 6444 is already in use", []string{"core-0", "aggregator-0"}},
		{"a process that ends", "echo 'Error: no' >&2; exit 1", nil, "core-2 cannot start: no", []string{"core-0", "core-1", "aggregator-0"}},
	} {
		w.refused, w.scripts = map[string]error{}, map[string]string{}
		if tc.refused != nil {
			w.refused["core-2"] = tc.refused
		} else {
			w.scripts["core-2"] = tc.script
		}
		if err := w.scale(4); err == nil || err.Error() != tc.want {
			t.Errorf("%s: error is %v, want %s", tc.name, err, tc.want)
		}
		w.expect(tc.name+": used", w.used(), tc.used...)
		w.expect(tc.name+": running", w.running(), tc.used...)
	}
}

func TestReplicasThatCannotBeUsedAreGivenUp(t *testing.T) {
	w := newWorld(t)
	w.start(1)
	w.useFails = errors.New("disk full")
	assert.ErrorIs(t, w.scale(2), w.useFails)
	w.expect("running", w.running(), "core-0", "aggregator-0")
}

func TestScaleEndsWithItsContext(t *testing.T) {
	w := newWorld(t)
	w.scripts["core-3"] = "exec sleep 600"
	w.start(3)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Scale(ctx, "core", 4) }()
	waitFor(t, "core-3 runs", func() bool { return slices.Contains(w.running(), "core-3") })
	assert.ErrorIs(t, w.scale(1), ErrBusy, "another one")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "core-3 was not ready yet") {
		t.Errorf("error is %v", err)
	}
	w.expect("running", w.running(), "core-0", "core-1", "core-2", "aggregator-0")
	assert.ErrorIs(t, w.Scale(ctx, "core", 1), context.Canceled, "one that comes too late")

	// One that is to stop is used again.
	w.config.Notice = time.Hour
	ctx, cancel = context.WithCancel(t.Context())
	go func() { ended <- w.Scale(ctx, "core", 1) }()
	waitFor(t, "core-1 is not used", func() bool { return !slices.Contains(w.used(), "core-1") })
	cancel()
	assert.ErrorIs(t, <-ended, context.Canceled)
	w.expect("used", w.used(), "core-0", "core-1", "core-2", "aggregator-0")
	w.expect("running", w.running(), "core-0", "core-1", "core-2", "aggregator-0")
}

func waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(giveUp); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", giveUp, what)
		}
	}
}
