// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/utils/ptr"

	"github.com/tripod-k8s/tripod/admin/view"
	"github.com/tripod-k8s/tripod/local/process"
)

var someStatuses = []Status{{
	Status: process.Status{
		Component: "core", Replica: "core-0", PID: 17, Address: "https://127.0.0.1:20000", Ready: true, Message: "all is well",
		Version: "v1.36.3", StartTime: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Restarts: 2, ResidentMemoryBytes: 1 << 20,
	},
	Requests: ptr.To[int64](17), Share: ptr.To(0.5),
}, {Status: process.Status{Component: "extensions", Replica: "extensions-0"}}}

// fake is an instance that is asked over its control socket.
type fake struct {
	over time.Duration
	// lines are sent by scale before it ends with an error, or when its context does.
	lines   []string
	failure error
	hangs   bool
	wanted  scaleRequest
	ended   chan error
	stopped func()
}

func (f *fake) stop() { f.stopped() }

func (f *fake) statuses(_ context.Context, over time.Duration) []Status {
	f.over = over
	return someStatuses
}

func (f *fake) observe(_ context.Context, after int64) *Observation {
	return &Observation{LastEvent: after, Processes: []process.Status{someStatuses[0].Status}, Aggregators: []view.Aggregator{}}
}

func (f *fake) scale(ctx context.Context, wanted scaleRequest, tell func(string)) error {
	f.wanted = wanted
	for _, line := range f.lines {
		tell(line)
	}
	if f.hangs {
		<-ctx.Done()
		f.ended <- ctx.Err()
	}
	return f.failure
}

// shortTempDir is t.TempDir with a path that leaves room for a socket.
func shortTempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tripod-")
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, os.RemoveAll(dir))
	})
	return dir
}

func serve(ctx context.Context, t *testing.T, dataDir DataDir, f *fake) {
	t.Helper()
	control, err := startControl(ctx, dataDir, f)
	require.NoError(t, err)
	t.Cleanup(func() { control.close(dataDir) })
}

func TestStatusOfARunningInstance(t *testing.T) {
	for _, tc := range []struct{ name, below string }{
		{name: "in a usual directory"},
		{name: "in a directory with a name too long for a socket", below: strings.Repeat("x", 120)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dataDir := DataDir(filepath.Join(shortTempDir(t), tc.below))
			require.NoError(t, os.MkdirAll(string(dataDir), 0o700))
			f := &fake{}
			serve(t.Context(), t, dataDir, f)
			got, err := GetStatus(t.Context(), dataDir, 1500*time.Millisecond)
			require.NoError(t, err)
			assert.Equal(t, 1500*time.Millisecond, f.over, "requests are counted over")
			if !reflect.DeepEqual(got, someStatuses) {
				t.Errorf("got  %+v\nwant %+v", got, someStatuses)
			}
			info, err := os.Stat(dataDir.socket())
			require.NoError(t, err)
			if mode := info.Mode().Perm(); mode != 0o600 {
				t.Errorf("the socket has mode %o", mode)
			}
		})
	}
}

func TestARunningInstanceIsObserved(t *testing.T) {
	dataDir := DataDir(shortTempDir(t))
	serve(t.Context(), t, dataDir, &fake{})
	got, err := Observe(t.Context(), dataDir, 17)
	require.NoError(t, err)
	assert.Equal(t, &Observation{LastEvent: 17, Processes: []process.Status{someStatuses[0].Status}, Aggregators: []view.Aggregator{}}, got)
	_, err = Observe(t.Context(), dataDir, -1)
	assert.ErrorContains(t, err, `after must be the number of an event, not "-1"`)
}

func TestStatusWhereNothingRuns(t *testing.T) {
	// As after kill -9, the socket is there but no process listens.
	stale := func(t *testing.T, dataDir DataDir) {
		listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: dataDir.socket()})
		require.NoError(t, err)
		listener.SetUnlinkOnClose(false)
		require.NoError(t, listener.Close())
	}
	for _, tc := range []struct {
		name    string
		prepare func(*testing.T, DataDir)
		missing bool
	}{
		{name: "no directory", missing: true},
		{name: "no socket"},
		{name: "a socket that was left behind", prepare: stale},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dataDir := DataDir(shortTempDir(t))
			if tc.missing {
				dataDir = DataDir(filepath.Join(string(dataDir), "missing"))
			}
			if tc.prepare != nil {
				tc.prepare(t, dataDir)
			}
			_, err := GetStatus(t.Context(), dataDir, 0)
			scaling := Scale(t.Context(), dataDir, "core", 2, func(string) {})
			for _, err := range []error{err, scaling} {
				if want := "tripod does not run in " + string(dataDir) + ": start it with `tripod up`, or give its --name or --data-dir"; err == nil || err.Error() != want {
					t.Errorf("error is %v, want %s", err, want)
				}
			}
		})
	}
}

func TestScaleTellsWhatHappens(t *testing.T) {
	for _, tc := range []struct {
		name string
		fake fake
		want string // the error
	}{
		{name: "it works", fake: fake{lines: []string{"  core-1  starting", "  core-1  ready"}}},
		{name: "nothing to do"},
		{name: "it fails", fake: fake{lines: []string{"  core-1  starting"}, failure: errors.New("no ports")}, want: "no ports"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dataDir := DataDir(shortTempDir(t))
			serve(t.Context(), t, dataDir, &tc.fake)
			var received []string
			err := Scale(t.Context(), dataDir, "core", 2, func(line string) { received = append(received, line) })
			if got := fmt.Sprint(err); (tc.want == "" && err != nil) || (tc.want != "" && got != tc.want) {
				t.Errorf("error is %v, want %q", err, tc.want)
			}
			assert.Equal(t, tc.fake.lines, received)
			if want := (scaleRequest{Service: "core", Replicas: 2}); tc.fake.wanted != want {
				t.Errorf("asked for %+v, want %+v", tc.fake.wanted, want)
			}
		})
	}
}

func TestScaleEndsWithItsClientAndWithTheInstance(t *testing.T) {
	for _, tc := range []struct {
		name             string
		client, instance bool
	}{
		{name: "the client goes", client: true},
		{name: "the instance stops", instance: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dataDir := DataDir(shortTempDir(t))
			f := &fake{lines: []string{"hangs"}, hangs: true, ended: make(chan error, 1), failure: errors.New("given up")}
			instance, stop := context.WithCancel(t.Context())
			defer stop()
			serve(instance, t, dataDir, f)
			client, goAway := context.WithCancel(t.Context())
			defer goAway()
			err := Scale(client, dataDir, "core", 2, func(string) {
				if tc.client {
					goAway()
				} else {
					stop()
				}
			})
			if err == nil || (tc.instance && err.Error() != "given up") {
				t.Errorf("error is %v", err)
			}
			assert.ErrorIs(t, <-f.ended, context.Canceled)
		})
	}
}

func TestInstanceOfAnotherVersionIsUnderstood(t *testing.T) {
	dataDir := DataDir(shortTempDir(t))
	serve(t.Context(), t, dataDir, &fake{})
	err := ask(t.Context(), dataDir, http.MethodGet, "/new", nil, nil)
	if want := "another version of tripod runs the instance in " + string(dataDir) + ": stop it, and start it with this version"; err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}

// TestStatusKeys holds the keys of `tripod status -o json`, which scripts rely on.
func TestStatusKeys(t *testing.T) {
	data, err := json.Marshal(someStatuses[0])
	require.NoError(t, err)
	var object map[string]any
	require.NoError(t, json.Unmarshal(data, &object))
	var keys []string
	for key := range object {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	want := []string{
		"address", "component", "cpuSeconds", "message", "pid", "ready", "replica", "requests", "residentMemoryBytes", "restarts", "share",
		"startTime", "version",
	}
	assert.Equal(t, want, keys, "keys")
}
