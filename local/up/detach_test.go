// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// lineWriter calls a function for each write.
type lineWriter func(line string)

func (w lineWriter) Write(data []byte) (int, error) {
	w(string(data))
	return len(data), nil
}

func detach(ctx context.Context, t *testing.T, dataDir DataDir, script string) (string, error) {
	t.Helper()
	var output strings.Builder
	err := Detach(ctx, dataDir, []string{"/bin/sh", "-c", script}, &output)
	return output.String(), err
}

func TestADetachedInstanceGoesOn(t *testing.T) {
	dataDir := DataDir(shortTempDir(t))
	output, err := detach(t.Context(), t, dataDir, `echo $$ >&3; test -n "$TRIPOD_UP_DETACHED" && printf '\0ready\n' >&3; exec 3>&-; exec sleep 60`)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(output))
	require.NoError(t, err)
	defer func() { assert.NoError(t, syscall.Kill(pid, syscall.SIGKILL)) }()
	session, _, errno := syscall.Syscall(syscall.SYS_GETSID, uintptr(pid), 0, 0)
	require.Zero(t, errno)
	assert.Equal(t, pid, int(session), "it has a session of its own, so the end of a terminal does not reach it")
}

func TestADetachedInstanceThatEndsSaysWhy(t *testing.T) {
	for name, script := range map[string]string{
		"at once":   `echo "Error: port 6443 is in use" >&2; exit 1`,
		"later":     `echo "starting" >&3; echo "Error: port 6443 is in use"; exit 1`,
		"too early": `printf 'ready' >&3; echo "Error: port 6443 is in use"`,
	} {
		t.Run(name, func(t *testing.T) {
			dataDir := DataDir(filepath.Join(shortTempDir(t), "data"))
			_, err := detach(t.Context(), t, dataDir, script)
			assert.EqualError(t, err, "the instance has ended before it was ready: port 6443 is in use")
			assert.NoDirExists(t, string(dataDir), "what it made is gone")
		})
	}
}

func TestADetachedInstanceThatEndsLeavesItsKeys(t *testing.T) {
	dataDir := DataDir(shortTempDir(t))
	_, err := detach(t.Context(), t, dataDir, "echo key > "+filepath.Join(dataDir.pki(), "ca.key")+"; exit 1")
	require.Error(t, err)
	assert.FileExists(t, filepath.Join(dataDir.pki(), "ca.key"))
	assert.FileExists(t, dataDir.log(ownLog))
}

func TestAnInterruptStopsWhatWasDetached(t *testing.T) {
	dataDir := DataDir(shortTempDir(t))
	ctx, cancel := context.WithCancel(t.Context())
	ended := dataDir.log("ended")
	err := Detach(ctx, dataDir, []string{"/bin/sh", "-c", `trap 'echo > ` + ended + `; exit' TERM; echo starting >&3; while :; do sleep 0.01; done`},
		lineWriter(func(string) { cancel() }))
	assert.EqualError(t, err, "interrupted: the instance has stopped")
	_, err = os.Stat(ended)
	assert.NoError(t, err, "the command has stopped in order")
}

// Otherwise nothing would be found to stop while the command starts.
func TestADetachedInstanceHasTheLockFromTheBeginning(t *testing.T) {
	dataDir := DataDir(shortTempDir(t))
	var pid int
	err := Detach(t.Context(), dataDir, []string{"/bin/sh", "-c", `echo $$ >&3; printf '\0ready\n' >&3; exec 3>&-; exec sleep 60`},
		lineWriter(func(line string) {
			var err error
			pid, err = strconv.Atoi(strings.TrimSpace(line))
			assert.NoError(t, err)
		}))
	require.NoError(t, err)
	defer func() { assert.NoError(t, syscall.Kill(pid, syscall.SIGKILL)) }()
	_, err = dataDir.open()
	assert.ErrorContains(t, err, "another tripod up")
	isLocked, err := dataDir.isLocked()
	require.NoError(t, err)
	assert.True(t, isLocked)
}

func TestASecondInstanceIsNotStarted(t *testing.T) {
	dataDir := DataDir(shortTempDir(t))
	lock, err := dataDir.open()
	require.NoError(t, err)
	defer lock.Close()
	_, err = detach(t.Context(), t, dataDir, `echo started > `+dataDir.log("started"))
	assert.ErrorContains(t, err, "another tripod up")
	_, err = os.Stat(dataDir.log("started"))
	assert.ErrorIs(t, err, os.ErrNotExist)
}
