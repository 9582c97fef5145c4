// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func write(t *testing.T, to io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(to, text); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, output Output) (stdout, stderr io.Writer) {
	t.Helper()
	stdout, stderr, err := output.Open()
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = output.Close() // most tests close it themselves
	})
	return stdout, stderr
}

func TestLogFileKeepsEarlierRunsButTailDoesNot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "core.log")
	log := NewLogFile(path)
	_, stderr := open(t, log)
	write(t, stderr, "first run\n")
	require.NoError(t, log.Close())
	_, stderr = open(t, log)
	write(t, stderr, "second run\n")
	assert.Equal(t, "second run\n", strings.Join(log.Tail(), "\n"), "tail")
	data, err := os.ReadFile(path)
	if err != nil || string(data) != "first run\nsecond run\n" {
		t.Errorf("log is %q, %v", data, err)
	}
}

func TestLogFileTailIsBounded(t *testing.T) {
	log := NewLogFile(filepath.Join(t.TempDir(), "core.log"))
	_, stderr := open(t, log)
	write(t, stderr, strings.Repeat("x", 3*tailSize)+"\nlast\n")
	tail := strings.Join(log.Tail(), "\n")
	if len(tail) != tailSize || !strings.HasSuffix(tail, "\nlast\n") {
		t.Errorf("tail has %d bytes and ends with %q", len(tail), tail[max(0, len(tail)-10):])
	}
}

func TestLargeLogIsPutAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "core.log")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Truncate(path, maxLogSize+1))
	open(t, NewLogFile(path))
	for name, want := range map[string]int64{path: 0, path + ".1": maxLogSize + 1} {
		info, err := os.Stat(name)
		require.NoError(t, err)
		if info.Size() != want {
			t.Errorf("%s has %d bytes, want %d", filepath.Base(name), info.Size(), want)
		}
	}
}

func TestLogFileFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	path, outside := filepath.Join(dir, "core.log"), filepath.Join(dir, "outside")
	require.NoError(t, os.Symlink(outside, path))
	_, _, err := NewLogFile(path).Open()
	assert.ErrorContains(t, err, path)
	assert.NoFileExists(t, outside)
}

func TestStreamDoesNotMixLines(t *testing.T) {
	var out, errs bytes.Buffer
	stream := NewStream(&out, &errs)
	core, extensions := stream.Output(), stream.Output()
	_, coreErr := open(t, core)
	extensionsOut, extensionsErr := open(t, extensions)
	write(t, coreErr, "core says ")
	write(t, extensionsErr, "extensions\nsays ")
	write(t, coreErr, "this\n")
	write(t, extensionsErr, "that")
	write(t, extensionsOut, "printed\n")
	assert.Equal(t, "extensions\nsays that", strings.Join(extensions.Tail(), "\n"), "tail")
	for _, output := range []Output{core, extensions} {
		require.NoError(t, output.Close())
	}
	if got, want := errs.String(), "extensions\ncore says this\nsays that\n"; got != want {
		t.Errorf("standard error is %q, want %q", got, want)
	}
	assert.Equal(t, "printed\n", out.String(), "standard output")
}
