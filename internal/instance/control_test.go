// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tripod-k8s/tripod/internal/supervisor"
)

var someStatuses = []supervisor.Status{{
	Component: "core", Replica: "core-0", PID: 17, Address: "https://127.0.0.1:20000", Ready: true, Message: "all is well",
	Version: "v1.36.3", StartTime: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Restarts: 2, ResidentMemoryBytes: 1 << 20,
}, {Component: "extensions", Replica: "extensions-0"}}

// shortTempDir is t.TempDir with a path that leaves room for a socket.
func shortTempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tripod-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func serveStatuses(t *testing.T, dataDir DataDir) {
	t.Helper()
	control, err := startControl(dataDir, func() []supervisor.Status { return someStatuses })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { control.close(dataDir) })
}

func TestStatusOfARunningInstance(t *testing.T) {
	for _, tc := range []struct{ name, below string }{
		{name: "in a usual directory"},
		{name: "in a directory with a name too long for a socket", below: strings.Repeat("x", 120)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dataDir := DataDir(filepath.Join(shortTempDir(t), tc.below))
			if err := os.MkdirAll(string(dataDir), 0o700); err != nil {
				t.Fatal(err)
			}
			serveStatuses(t, dataDir)
			got, err := Status(t.Context(), dataDir)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, someStatuses) {
				t.Errorf("got  %+v\nwant %+v", got, someStatuses)
			}
			info, err := os.Stat(dataDir.socket())
			if err != nil {
				t.Fatal(err)
			}
			if mode := info.Mode().Perm(); mode != 0o600 {
				t.Errorf("the socket has mode %o", mode)
			}
		})
	}
}

func TestStatusWhereNothingRuns(t *testing.T) {
	// As after kill -9, the socket is there but nobody listens.
	stale := func(t *testing.T, dataDir DataDir) {
		listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: dataDir.socket()})
		if err != nil {
			t.Fatal(err)
		}
		listener.SetUnlinkOnClose(false)
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
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
			_, err := Status(t.Context(), dataDir)
			if want := "tripod does not run in " + string(dataDir); err == nil || err.Error() != want {
				t.Errorf("error is %v, want %s", err, want)
			}
		})
	}
}

// TestStatusKeys holds the keys of `tripod status -o json`, which scripts rely on.
func TestStatusKeys(t *testing.T) {
	data, err := json.Marshal(supervisor.Status{})
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := json.Unmarshal(data, &object); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for key := range object {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	want := []string{
		"address", "component", "message", "pid", "ready", "replica", "residentMemoryBytes", "restarts", "startTime", "version",
	}
	if !slices.Equal(keys, want) {
		t.Errorf("keys are %v, want %v", keys, want)
	}
}
