// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// setHome gives the test a home directory without instances.
func setHome(t *testing.T) string {
	t.Helper()
	home := shortTempDir(t)
	t.Setenv("HOME", home)
	t.Setenv(DataDirVariable, "")
	return home
}

// makeInstance makes the data directory of an instance that does not run.
func makeInstance(t *testing.T, name string) DataDir {
	t.Helper()
	d, err := DataDirNamed(name)
	require.NoError(t, err)
	lock, err := d.open()
	require.NoError(t, err)
	require.NoError(t, lock.Close())
	return d
}

func TestNamesOfInstances(t *testing.T) {
	home := setHome(t)
	for name, want := range map[string]string{DefaultName: ".tripod", "east": ".tripod-east"} {
		d, err := DataDirNamed(name)
		require.NoError(t, err)
		assert.Equal(t, DataDir(filepath.Join(home, want)), d)
		assert.Equal(t, name, d.Name())
	}
	for _, name := range []string{"", "East", "../x", "a/b"} {
		_, err := DataDirNamed(name)
		assert.ErrorContains(t, err, "is no name for an instance", name)
	}
	assert.Equal(t, "/elsewhere", DataDir("/elsewhere").Name())
	t.Setenv(DataDirVariable, "/elsewhere")
	assert.Equal(t, DefaultName, DataDir("/elsewhere").Name())
}

func TestInstancesAreFound(t *testing.T) {
	home := setHome(t)
	found, err := Instances()
	require.NoError(t, err)
	assert.Empty(t, found)
	require.NoError(t, os.Mkdir(filepath.Join(home, ".tripod-of-another-program"), 0o700))
	b, a := makeInstance(t, "b"), makeInstance(t, DefaultName)
	found, err = Instances()
	require.NoError(t, err)
	assert.Equal(t, []DataDir{a, b}, found)
	assert.Equal(t, Instance{Name: "b", DataDir: string(b)}, Describe(t.Context(), b))
}

func TestAnInstanceIsStopped(t *testing.T) {
	setHome(t)
	d := makeInstance(t, DefaultName)
	stopped, err := Stop(t.Context(), d, ignore)
	require.NoError(t, err)
	assert.False(t, stopped, "nothing runs")

	lock, err := d.open()
	require.NoError(t, err)
	ended := make(chan struct{})
	control, err := startControl(t.Context(), d, &fake{stopped: func() { close(ended) }})
	require.NoError(t, err)
	described := Describe(t.Context(), d)
	assert.Equal(t, Instance{Name: DefaultName, DataDir: string(d), Running: true, PID: os.Getpid(), Ready: 1, Processes: 2}, described)
	go func() {
		<-ended
		control.close(d)
		_ = lock.Close()
	}()
	stopped, err = Stop(t.Context(), d, ignore)
	require.NoError(t, err)
	assert.True(t, stopped)
	again, err := d.open()
	require.NoError(t, err, "it is free when Stop returns")
	require.NoError(t, again.Close())
}

func ignore(int) {}

// An instance locks its directory before it listens, and until after it has listened.
func TestAnInstanceThatDoesNotListenIsAwaited(t *testing.T) {
	setHome(t)
	d := makeInstance(t, DefaultName)
	lock, err := d.open()
	require.NoError(t, err)
	listens := false
	stopped, err := Stop(t.Context(), d, func(pid int) {
		assert.Equal(t, os.Getpid(), pid)
		control, err := startControl(t.Context(), d, &fake{stopped: func() { _ = lock.Close() }})
		require.NoError(t, err)
		t.Cleanup(func() { control.close(d) })
		listens = true
	})
	require.NoError(t, err)
	assert.True(t, stopped)
	assert.True(t, listens)

	if lock, err = d.open(); assert.NoError(t, err) {
		require.NoError(t, os.Remove(d.socket()))
		stopped, err = Stop(t.Context(), d, func(int) { _ = lock.Close() })
		require.NoError(t, err)
		assert.True(t, stopped, "it has ended by itself")
	}
}

// TestAnInstanceIsStoppedWhileItPrepares has one wait for an etcd.
func TestAnInstanceIsStoppedWhileItPrepares(t *testing.T) {
	setHome(t)
	asked := make(chan struct{})
	etcd := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		close(asked)
		<-req.Context().Done()
	}))
	defer etcd.Close()
	d := DataDir(DefaultDataDir())
	ended := make(chan error, 1)
	options := DefaultOptions()
	options.DataDir, options.Port, options.EtcdServers = string(d), 0, []string{etcd.URL}
	var out strings.Builder
	go func() { ended <- Run(t.Context(), options, &out) }()
	<-asked
	described := Describe(t.Context(), d)
	assert.True(t, described.Running)
	assert.Zero(t, described.Processes)
	stopped, err := Stop(t.Context(), d, ignore)
	require.NoError(t, err)
	assert.True(t, stopped)
	require.NoError(t, <-ended)
	assert.Contains(t, out.String(), "It was stopped")
}

func TestAnInstanceThatIsRefusedLeavesNothing(t *testing.T) {
	setHome(t)
	run := func() error {
		options := DefaultOptions()
		options.DataDir, options.Port, options.EtcdServers = DefaultDataDir(), holdPort(t), []string{"http://127.0.0.1:1"}
		return Run(t.Context(), options, io.Discard)
	}
	require.ErrorContains(t, run(), "is already in use")
	assert.NoDirExists(t, DefaultDataDir())

	require.NoError(t, os.Mkdir(DefaultDataDir(), 0o700))
	require.ErrorContains(t, run(), "is already in use")
	left, err := os.ReadDir(DefaultDataDir())
	require.NoError(t, err)
	assert.Empty(t, left, "the directory was there before")

	key := filepath.Join(makeInstance(t, DefaultName).pki(), "ca.key")
	require.NoError(t, os.WriteFile(key, nil, 0o600))
	require.ErrorContains(t, run(), "is already in use")
	assert.FileExists(t, key, "an instance had used the directory")
}

func TestAnInstanceThatDoesNotStop(t *testing.T) {
	setHome(t)
	d := makeInstance(t, DefaultName)
	lock, err := d.open()
	require.NoError(t, err)
	defer lock.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	control, err := startControl(t.Context(), d, &fake{stopped: func() { cancel(errors.New("not done in time")) }})
	require.NoError(t, err)
	defer control.close(d)
	_, err = Stop(ctx, d, ignore)
	assert.ErrorContains(t, err, "not done in time")
}

func TestOnlyWhatAnInstanceHasMadeIsDeleted(t *testing.T) {
	setHome(t)
	d := makeInstance(t, "a")
	lock, err := d.open()
	require.NoError(t, err)
	_, err = Delete(d)
	require.ErrorContains(t, err, fmt.Sprintf("another tripod up (pid %d)", os.Getpid()))
	require.NoError(t, lock.Close())

	mine := filepath.Join(string(d), "notes.txt")
	require.NoError(t, os.WriteFile(mine, nil, 0o600))
	others, err := Delete(d)
	require.NoError(t, err)
	assert.Equal(t, []string{"notes.txt"}, others)
	_, err = Delete(d)
	require.ErrorContains(t, err, "there is no instance in "+string(d))

	// An instance that came into a directory with files does not know which of them are its own.
	require.NoError(t, os.Mkdir(filepath.Join(string(d), "controllers"), 0o700))
	makeInstance(t, "a")
	_, err = Delete(d)
	require.ErrorContains(t, err, "had files before an instance used it")
	_, err = os.Stat(d.pki())
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(string(d)))
	require.NoError(t, os.Mkdir(string(d), 0o755))
	require.NoError(t, os.WriteFile(mine, nil, 0o600))
	before, err := os.Stat(string(d))
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(d.pki(), 0o700))
	_, err = Delete(d)
	require.ErrorContains(t, err, "had files before an instance used it")
	after, err := os.Stat(string(d))
	require.NoError(t, err)
	assert.Equal(t, before.Mode(), after.Mode())
	require.NoError(t, os.RemoveAll(d.pki()))
	_, err = os.Stat(mine)
	require.NoError(t, err)

	require.NoError(t, os.Remove(mine))
	makeInstance(t, "a")
	others, err = Delete(d)
	require.NoError(t, err)
	assert.Empty(t, others)
	_, err = os.Stat(string(d))
	assert.ErrorIs(t, err, os.ErrNotExist)
}
