// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/fsnotify/fsnotify"

	"github.com/tripod-k8s/tripod/base/certs/privatedir"
)

const logSuffix = ".log"

// Logs returns the names of the logs in the data directory: those of replicas, also of former ones, and that of the instance itself.
func Logs(d DataDir) ([]string, error) {
	if err := privatedir.Check(string(d)); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(d.logs())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no instance in %s: `tripod list` shows those that there are", d)
	}
	var names []string
	for _, entry := range entries {
		if name, ok := strings.CutSuffix(entry.Name(), logSuffix); ok && entry.Type().IsRegular() {
			names = append(names, name)
		}
	}
	return names, err
}

// LogLine is a line of a log.
type LogLine struct{ Log, Text string }

// ReadLogs calls line for the last lines of each of the logs, at most last of each if that is not negative, one log after the other. If
// follow is set, it goes on until ctx ends, with the lines of all logs as they come.
func ReadLogs(ctx context.Context, d DataDir, logs []string, last int, follow bool, line func(LogLine)) error {
	known, err := Logs(d)
	if err != nil {
		return err
	}
	var readers []*logReader
	for _, name := range logs {
		if !slices.Contains(known, name) {
			return fmt.Errorf("%s has no log %q: there are %s", d.logs(), name, strings.Join(known, ", "))
		}
		readers = append(readers, &logReader{name: name, path: d.log(name)})
	}
	for _, r := range readers {
		defer r.close()
		if err := r.readLast(last, line); err != nil {
			return err
		}
	}
	if !follow {
		return nil
	}
	return followLogs(ctx, d.logs(), readers, line)
}

// followLogs reads what comes after readLast until ctx ends.
func followLogs(ctx context.Context, dir string, readers []*logReader, line func(LogLine)) error {
	// A directory reports events of all its files, also of those that replace others.
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer watcher.Close() //nolint:errcheck // nothing depends on it
	if err := watcher.Add(dir); err != nil {
		return err
	}
	for {
		for _, r := range readers {
			if err := r.readNew(line); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-watcher.Errors:
			if !errors.Is(err, fsnotify.ErrEventOverflow) { // then something has changed, too
				return err
			}
		case <-watcher.Events:
		}
	}
}

// logReader reads a log.
type logReader struct {
	name, path string
	file       *os.File
	// rest is the beginning of a line whose end has not come.
	rest string
}

func (r *logReader) close() {
	if r.file != nil {
		_ = r.file.Close()
	}
}

// lastSize bounds what readLast reads of a log, in bytes.
const lastSize = 16 << 20

// readLast calls line for each of the last lines, all of them if last is negative.
func (r *logReader) readLast(last int, line func(LogLine)) (err error) {
	if r.file, err = os.Open(r.path); err != nil {
		return err
	}
	info, err := r.file.Stat()
	if err != nil {
		return err
	}
	if _, err := r.file.Seek(max(0, info.Size()-lastSize), io.SeekStart); err != nil {
		return err
	}
	var lines []LogLine
	if err := r.readOn(func(l LogLine) { lines = append(lines, l) }); err != nil {
		return err
	}
	if last >= 0 {
		lines = lines[max(0, len(lines)-last):]
	}
	for _, l := range lines {
		line(l)
	}
	return nil
}

// readNew calls line for each line since the last call. A log that was put aside has a successor of the same name.
func (r *logReader) readNew(line func(LogLine)) error {
	if err := r.readOn(line); err != nil {
		return err
	}
	own, err := r.file.Stat()
	if err != nil {
		return err
	}
	now, err := os.Stat(r.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && os.SameFile(own, now) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := r.readOn(line); err != nil { // what came before the other file took its place
		return err
	}
	r.close()
	r.rest = ""
	if r.file, err = os.Open(r.path); err != nil {
		return err
	}
	return r.readOn(line)
}

// readOn calls line for each whole line up to the end of the file.
func (r *logReader) readOn(line func(LogLine)) error {
	data, err := io.ReadAll(r.file)
	if err != nil {
		return err
	}
	lines := strings.Split(r.rest+string(data), "\n")
	for _, text := range lines[:len(lines)-1] {
		line(LogLine{r.name, text})
	}
	r.rest = lines[len(lines)-1]
	return nil
}
