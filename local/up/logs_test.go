// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLogs(t *testing.T) {
	setHome(t)
	_, err := Logs(DataDir("/missing"))
	require.ErrorContains(t, err, "there is no instance in /missing")
	d := makeInstance(t, DefaultName)
	write := func(log, text string) {
		file, err := os.OpenFile(d.log(log), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		require.NoError(t, err)
		_, err = file.WriteString(text)
		require.NoError(t, err)
		require.NoError(t, file.Close())
	}
	write("core-0", "one\ntwo\nthree\n")
	write("core-1", "four\n")
	write("etcd-0", "")
	names, err := Logs(d)
	require.NoError(t, err)
	assert.Equal(t, []string{"core-0", "core-1", "etcd-0"}, names)

	var lines []LogLine
	take := func(line LogLine) { lines = append(lines, line) }
	require.NoError(t, ReadLogs(t.Context(), d, []string{"etcd-0", "core-0", "core-1"}, 2, false, take))
	assert.Equal(t, []LogLine{{"core-0", "two"}, {"core-0", "three"}, {"core-1", "four"}}, lines)
	lines = nil
	require.NoError(t, ReadLogs(t.Context(), d, []string{"core-0"}, -1, false, take))
	assert.Len(t, lines, 3)
	require.ErrorContains(t, ReadLogs(t.Context(), d, []string{"../lock"}, 2, false, take), `has no log "../lock"`)
}

// A log that is put aside when its replica starts anew has a successor, which is followed too.
func TestLogsAreFollowed(t *testing.T) {
	setHome(t)
	d := makeInstance(t, DefaultName)
	path := d.log("core-0")
	require.NoError(t, os.WriteFile(path, []byte("one\n"), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lines := make(chan LogLine)
	ended := make(chan error, 1)
	go func() { ended <- ReadLogs(ctx, d, []string{"core-0"}, 1, true, func(l LogLine) { lines <- l }) }()
	assert.Equal(t, LogLine{"core-0", "one"}, <-lines)

	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = file.WriteString("two\n")
	require.NoError(t, err)
	require.NoError(t, file.Close())
	assert.Equal(t, LogLine{"core-0", "two"}, <-lines)

	require.NoError(t, os.Rename(path, path+".1"))
	require.NoError(t, os.WriteFile(path, []byte("three\n"), 0o600))
	assert.Equal(t, LogLine{"core-0", "three"}, <-lines)
	cancel()
	assert.ErrorIs(t, <-ended, context.Canceled)
}
