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
	if err != nil {
		t.Fatal(err)
	}
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
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	_, stderr = open(t, log)
	write(t, stderr, "second run\n")
	if tail := strings.Join(log.Tail(), "\n"); tail != "second run\n" {
		t.Errorf("tail is %q", tail)
	}
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
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, maxLogSize+1); err != nil {
		t.Fatal(err)
	}
	open(t, NewLogFile(path))
	for name, want := range map[string]int64{path: 0, path + ".1": maxLogSize + 1} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() != want {
			t.Errorf("%s has %d bytes, want %d", filepath.Base(name), info.Size(), want)
		}
	}
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
	if got := strings.Join(extensions.Tail(), "\n"); got != "extensions\nsays that" {
		t.Errorf("tail is %q", got)
	}
	for _, output := range []Output{core, extensions} {
		if err := output.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := errs.String(), "extensions\ncore says this\nsays that\n"; got != want {
		t.Errorf("standard error is %q, want %q", got, want)
	}
	if got := out.String(); got != "printed\n" {
		t.Errorf("standard output is %q", got)
	}
}
