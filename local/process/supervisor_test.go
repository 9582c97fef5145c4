// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/util/wait"
)

// giveUp ends a wait that would otherwise never end. It says nothing about speed.
const giveUp = 30 * time.Second

// recorder keeps the events of a group.
type recorder struct {
	mu     sync.Mutex
	events []Event
}

func (r *recorder) record(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *recorder) of(eventType EventType) []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.events), func(e Event) bool { return e.Type != eventType })
}

// newGroup returns a group that is stopped with the test.
func newGroup(t *testing.T) (*Group, *recorder) {
	t.Helper()
	t.TempDir() // those of a test are removed last, when nothing writes into them any more
	events := &recorder{}
	group := NewGroup(events.record)
	t.Cleanup(group.Stop)
	return group, events
}

// shell describes a process that runs a script and is ready when the file "ready" is in its directory, which is $0.
func shell(t *testing.T, component, script string) (process Process, dir string) {
	t.Helper()
	dir = t.TempDir()
	return Process{
		Component: component,
		Replica:   component + "-0",
		Path:      "/bin/sh",
		Args:      []string{"-c", script, dir},
		Address:   "nowhere",
		Output:    NewLogFile(filepath.Join(dir, "log")),
		Ready: func(context.Context) error {
			_, err := os.Stat(filepath.Join(dir, "ready"))
			return err
		},
		Version: func(context.Context) string { return "v1" },
		Backoff: time.Millisecond,
	}, dir
}

// serving is a script that is ready until it gets SIGTERM.
const serving = `trap 'exit 0' TERM; touch $0/ready; while :; do sleep 0.01; done`

func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, giveUp, true,
		func(context.Context) (bool, error) { return condition(), nil })
	require.NoError(t, err, what)
}

func waitReady(t *testing.T, group *Group, children ...*Child) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), giveUp)
	defer cancel()
	require.NoError(t, group.WaitReady(ctx, children...))
}

// running reports whether there is a process; the group has waited for those that ended.
func running(pid int) bool { return syscall.Kill(pid, 0) == nil }

func TestChildrenHaveNothingThatIsForTheirParentAlone(t *testing.T) {
	for _, name := range ofOneProcess {
		t.Setenv(name, "parent")
	}
	t.Setenv("ORDINARY", "yes")
	group, _ := newGroup(t)
	process, dir := shell(t, "core", `env > $0/env; `+serving)
	process.Env = []string{"NOTIFY_SOCKET=own"}
	waitReady(t, group, group.Start(process))
	content, err := os.ReadFile(filepath.Join(dir, "env"))
	require.NoError(t, err)
	lines := strings.Split(string(content), "\n")
	assert.Contains(t, lines, "ORDINARY=yes")
	assert.Contains(t, lines, "NOTIFY_SOCKET=own")
	assert.NotContains(t, string(content), "=parent")
}

func TestChildBecomesReady(t *testing.T) {
	group, events := newGroup(t)
	process, _ := shell(t, "core", serving)
	child := group.Start(process)
	waitReady(t, group, child)
	until(t, "the version is known", func() bool { return child.Status().Version == "v1" })

	status := child.Status()
	if !status.Ready || status.PID == 0 || status.Restarts != 0 || status.Message != "" || status.StartTime.IsZero() {
		t.Errorf("status is %+v", status)
	}
	if status.Component != "core" || status.Replica != "core-0" || status.Address != "nowhere" {
		t.Errorf("status is %+v", status)
	}
	if status.ResidentMemoryBytes <= 0 && runtime.GOOS == "linux" {
		t.Errorf("resident memory is %d bytes", status.ResidentMemoryBytes)
	}
	if len(events.of(Started)) != 1 || len(events.of(Ready)) != 1 {
		t.Errorf("events are %v", events.events)
	}
}

func TestChildThatDiesIsRestarted(t *testing.T) {
	group, events := newGroup(t)
	process, _ := shell(t, "core", serving)
	child := group.Start(process)
	waitReady(t, group, child)
	before := child.Status().PID
	require.NoError(t, syscall.Kill(before, syscall.SIGKILL))
	until(t, "another process is ready", func() bool {
		status := child.Status()
		return status.Ready && status.PID != 0 && status.PID != before
	})
	assert.Equal(t, 1, child.Status().Restarts, "restarts")
	exited := events.of(Exited)
	if len(exited) != 1 || exited[0].Err == nil || exited[0].Err.Error() != "signal: killed" {
		t.Errorf("exits are %v", exited)
	}
}

func TestChildThatWasReadyIsNeverGivenUp(t *testing.T) {
	group, events := newGroup(t)
	process, dir := shell(t, "core", `touch $0/ready; test -e $0/seen && exit 1; while ! test -e $0/seen; do sleep 0.01; done`)
	process.FailedStarts = 1
	child := group.Start(process)
	waitReady(t, group, child)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "seen"), nil, 0o600))
	until(t, "it has been restarted several times", func() bool { return child.Status().Restarts > 3 })
	if gaveUp := events.of(GaveUp); len(gaveUp) != 0 {
		t.Errorf("given up: %v", gaveUp)
	}
}

func TestBackoffDoubles(t *testing.T) {
	group, events := newGroup(t)
	process, _ := shell(t, "core", "exit 1")
	process.FailedStarts = 5
	group.Start(process)
	if err := <-group.Failed(); err == nil {
		t.Error("given up without an error")
	}
	var waits []time.Duration
	for _, e := range events.of(Exited) {
		waits = append(waits, e.RestartIn)
	}
	if want := []time.Duration{time.Millisecond, 2 * time.Millisecond, 4 * time.Millisecond, 8 * time.Millisecond}; !slices.Equal(waits, want) {
		t.Errorf("waits are %v, want %v", waits, want)
	}
}

func TestChildThatCannotStartIsGivenUpWithItsOwnError(t *testing.T) {
	for _, tc := range []struct {
		name, path, script, want string
	}{
		{name: "says why", script: "echo 'Error: unknown flag: --nope' >&2; exit 1", want: "core-0 cannot start: unknown flag: --nope"},
		{name: "says nothing", script: "exit 3", want: "core-0 cannot start: exit status 3"},
		{name: "is killed", script: "echo 'all is well' >&2; kill -9 $$", want: "core-0 cannot start: signal: killed"},
		{name: "does not stay", script: "echo 'all is well' >&2", want: "core-0 cannot start: exited without an error"},
		{name: "does not exist", path: "/nowhere/tripod-core", want: "core-0 cannot start: cannot run /nowhere/tripod-core: fork/exec /nowhere/tripod-core: no such file or directory"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			group, events := newGroup(t)
			process, _ := shell(t, "core", tc.script)
			if tc.path != "" {
				process.Path = tc.path
			}
			process.FailedStarts = 2
			child := group.Start(process)
			ctx, cancel := context.WithTimeout(t.Context(), giveUp)
			defer cancel()
			err := group.WaitReady(ctx, child)
			if err == nil || err.Error() != tc.want {
				t.Errorf("error is %q, want %q", err, tc.want)
			}
			if exited, gaveUp := len(events.of(Exited)), len(events.of(GaveUp)); exited != 1 || gaveUp != 1 {
				t.Errorf("%d exits with a restart and given up %d times, want 1 and 1", exited, gaveUp)
			}
			if status := child.Status(); status.Ready || status.PID != 0 {
				t.Errorf("status is %+v", status)
			}
		})
	}
}

func TestReadinessThatComesAndGoesIsReported(t *testing.T) {
	group, events := newGroup(t)
	var unready sync.Map
	process, _ := shell(t, "core", serving)
	process.Ready = func(context.Context) error {
		if reason, ok := unready.Load("reason"); ok {
			return reason.(error)
		}
		return nil
	}
	child := group.Start(process)
	waitReady(t, group, child)
	unready.Store("reason", errors.New("waits for etcd"))
	until(t, "the loss is reported", func() bool { return len(events.of(NotReady)) == 1 })
	if status := child.Status(); status.Ready || status.Message != "waits for etcd" || status.PID == 0 {
		t.Errorf("status is %+v", status)
	}
	assert.Equal(t, "not ready any more: waits for etcd", events.of(NotReady)[0].String(), "line")
	unready.Delete("reason")
	until(t, "the return is reported", func() bool { return len(events.of(Ready)) == 2 })
	if line := events.of(Ready)[1].String(); !strings.HasPrefix(line, "ready again after ") {
		t.Errorf("line is %q", line)
	}
}

func TestGroupStopsTheLastStartedFirst(t *testing.T) {
	group, events := newGroup(t)
	var children []*Child
	for _, name := range []string{"etcd", "core", "aggregator"} {
		process, _ := shell(t, name, serving)
		children = append(children, group.Start(process))
	}
	waitReady(t, group, children...)
	pids := []int{children[0].Status().PID, children[1].Status().PID, children[2].Status().PID}
	group.Stop()

	var order []string
	for _, e := range events.of(Stopped) {
		order = append(order, e.Component)
		if e.Err != nil {
			t.Errorf("%s: %v", e.Component, e.Err)
		}
	}
	assert.Equal(t, []string{"aggregator", "core", "etcd"}, order, "order")
	for _, pid := range pids {
		if running(pid) {
			t.Errorf("process %d still runs", pid)
		}
	}
	if exited := events.of(Exited); len(exited) != 0 {
		t.Errorf("a process that was asked to stop counts as dead: %v", exited)
	}
}

func TestReplicasOfAComponentBelongTogether(t *testing.T) {
	group, events := newGroup(t)
	startReplica := func(component, replica, script string) *Child {
		process, _ := shell(t, component, script)
		process.Replica = replica
		return group.Start(process)
	}
	// Each of them stops only when the other one is asked to.
	dir := t.TempDir()
	together := func(own, other string) string {
		return `trap 'touch ` + dir + `/` + own + `; while ! test -e ` + dir + `/` + other + `; do sleep 0.01; done; exit 0' TERM
			touch $0/ready; while :; do sleep 0.01; done`
	}
	children := []*Child{
		startReplica("core", "core-0", together("a", "b")),
		startReplica("aggregator", "aggregator-0", serving),
		startReplica("core", "core-1", together("b", "a")),
	}
	waitReady(t, group, children...)
	var order []string
	for _, status := range group.Statuses() {
		order = append(order, status.Replica)
	}
	assert.Equal(t, []string{"core-0", "core-1", "aggregator-0"}, order, "statuses")
	group.Stop()
	stopped := events.of(Stopped)
	if len(stopped) != 3 || stopped[0].Component != "aggregator" {
		t.Errorf("stops are %v, want the aggregator first", stopped)
	}
	for _, e := range stopped {
		if e.Err != nil {
			t.Errorf("%s: %v", e.Replica, e.Err)
		}
	}
}

func TestChildCanBeRemoved(t *testing.T) {
	group, _ := newGroup(t)
	process, _ := shell(t, "core", serving)
	stays, goes := group.Start(process), group.Start(process)
	waitReady(t, group, stays, goes)
	pid := goes.Status().PID
	group.Remove(goes)
	if running(pid) {
		t.Errorf("process %d still runs", pid)
	}
	if statuses := group.Statuses(); len(statuses) != 1 || statuses[0].PID != stays.Status().PID {
		t.Errorf("statuses are %v", statuses)
	}
	assert.True(t, stays.Status().Ready, "the other child is not ready any more")
}

func TestChildThatWasGivenUpIsNoReasonNotToWaitForOthers(t *testing.T) {
	group, _ := newGroup(t)
	process, _ := shell(t, "core", "exit 1")
	process.FailedStarts = 1
	failing := group.Start(process)
	ctx, cancel := context.WithTimeout(t.Context(), giveUp)
	defer cancel()
	for range 2 { // it stays so
		if err := group.WaitReady(ctx, failing); err == nil || ctx.Err() != nil {
			t.Fatalf("error is %v", err)
		}
	}
	group.Remove(failing)
	process, _ = shell(t, "core", serving)
	waitReady(t, group, group.Start(process))
}

func TestChildThatDoesNotStopIsKilled(t *testing.T) {
	group, events := newGroup(t)
	process, _ := shell(t, "core", `trap '' TERM; touch $0/ready; while :; do sleep 0.01; done`)
	process.StopTimeout = 50 * time.Millisecond
	child := group.Start(process)
	waitReady(t, group, child)
	pid := child.Status().PID
	group.Stop()
	if running(pid) {
		t.Errorf("process %d still runs", pid)
	}
	stopped := events.of(Stopped)
	if len(stopped) != 1 || stopped[0].Err == nil || !strings.Contains(stopped[0].Err.Error(), "killed") {
		t.Errorf("stops are %v", stopped)
	}
}

func TestStopDoesNotWaitForARestart(t *testing.T) {
	group, events := newGroup(t)
	process, _ := shell(t, "core", "exit 1")
	process.Backoff = time.Hour
	child := group.Start(process)
	until(t, "it waits for its restart", func() bool { return len(events.of(Exited)) == 1 })
	assert.Equal(t, "restarts in 1h0m0s: exit status 1", child.Status().Message, "message")
	group.Stop()
}

func TestWaitReadyEndsWithItsContext(t *testing.T) {
	group, _ := newGroup(t)
	process, _ := shell(t, "core", "exec sleep 60")
	child := group.Start(process)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, group.WaitReady(ctx, child), context.Canceled)
}

// supervisorVariable has the test binary be a process that supervises a child, until it is killed.
const supervisorVariable = "TRIPOD_TEST_SUPERVISOR_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(supervisorVariable); dir != "" {
		group := NewGroup(func(Event) {})
		group.Start(Process{
			Path: "/bin/sh", Args: []string{"-c", `echo $$ > $0/new; mv $0/new $0/pid; exec sleep 600`, dir},
			Output:  NewLogFile(filepath.Join(dir, "log")),
			Ready:   func(context.Context) error { return nil },
			Version: func(context.Context) string { return "" },
		})
		select {}
	}
	os.Exit(m.Run())
}
