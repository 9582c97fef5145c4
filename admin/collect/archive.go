// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Options say where to write, and how much.
type Options struct {
	// File is the archive. It must not exist.
	File string
	// MaxBytes bounds all files together before they are compressed, and MaxLogBytes the end of a log.
	MaxBytes, MaxLogBytes int64
	// Progress gets a line about each step.
	Progress func(line string)
}

// maxFileBytes bounds a file of the archive that is no log.
const maxFileBytes = 16 << 20

// Entry is a file of the archive.
type Entry struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	// Truncated says that a part of it is left out.
	Truncated bool `json:"truncated,omitempty"`
}

// Summary says what is in an archive.
type Summary struct {
	File    string  `json:"file"`
	Bytes   int64   `json:"bytes"`
	Entries []Entry `json:"entries"`
	// Redacted counts what the scrubber has replaced.
	Redacted int `json:"redacted"`
	// Problems say what could not be collected.
	Problems []string `json:"problems"`
	Seconds  float64  `json:"seconds"`
}

// Source adds files to an archive. It reports problems to the archive and goes on.
type Source interface {
	// Secrets teaches the scrubber what must not be in any file. It comes before Collect of all sources.
	Secrets(ctx context.Context, a *Archive)
	Collect(ctx context.Context, a *Archive)
}

// Missing is a source that cannot be used, and says why.
type Missing string

// Secrets does nothing.
func (m Missing) Secrets(context.Context, *Archive) {}

// Collect reports the problem.
func (m Missing) Collect(_ context.Context, a *Archive) { a.Problem("%s", string(m)) }

// Archive is a tar file in the making.
type Archive struct {
	Options
	Scrubber Scrubber
	tar      *tar.Writer
	began    time.Time
	summary  Summary
	left     int64
	// failed is the first error of writing.
	failed error
}

// Collect writes an archive of all sources. The file appears only when it is complete, and only its owner can read it. If the context ends
// early, what is collected until then is kept, with a problem that says so. If cancelled reports true, nothing is kept.
func Collect(ctx context.Context, o Options, cancelled func() bool, sources ...Source) (summary *Summary, err error) {
	if _, err := os.Lstat(o.File); err == nil {
		return nil, fmt.Errorf("%s exists, and is not overwritten: give another name", o.File)
	}
	file, err := os.CreateTemp(filepath.Dir(o.File), ".tripod-debug-*") // with mode 0600
	if err != nil {
		return nil, fmt.Errorf("cannot write an archive: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreClosed(file.Close()), os.Remove(file.Name()))
		}
	}()
	compressed := gzip.NewWriter(file)
	a := &Archive{Options: o, tar: tar.NewWriter(compressed), began: time.Now(), left: o.MaxBytes}
	a.summary.File, a.summary.Problems = o.File, []string{}
	for _, source := range sources {
		source.Secrets(ctx, a)
	}
	for _, source := range sources {
		source.Collect(ctx, a)
	}
	if cancelled() {
		return nil, errors.New("stopped; no archive is written")
	}
	if ctx.Err() != nil {
		a.Problem("the time was over: %v", context.Cause(ctx))
	}
	if len(a.summary.Entries) == 0 && a.failed == nil {
		return nil, fmt.Errorf("nothing could be collected: %s", strings.Join(a.summary.Problems, "; "))
	}
	a.finish()
	if err := errors.Join(a.failed, a.tar.Close(), compressed.Close(), file.Close()); err != nil {
		return nil, fmt.Errorf("cannot write an archive: %w", err)
	}
	if err := os.Link(file.Name(), o.File); err != nil { // unlike Rename, it overwrites nothing
		return nil, fmt.Errorf("cannot write an archive: %w", err)
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, err
	}
	info, err := os.Stat(o.File)
	if err != nil {
		return nil, err
	}
	a.summary.Bytes = info.Size()
	return &a.summary, nil
}

func ignoreClosed(err error) error {
	if errors.Is(err, fs.ErrClosed) {
		return nil
	}
	return err
}

// finish adds the summary, which no bound concerns.
func (a *Archive) finish() {
	a.summary.Seconds, a.summary.Redacted = time.Since(a.began).Seconds(), a.Scrubber.Redacted
	data, err := json.MarshalIndent(a.summary, "", "  ")
	if err != nil {
		a.failed = errors.Join(a.failed, err)
		return
	}
	a.write("summary.json", a.Scrubber.Scrub(data))
}

// Problem reports what could not be collected.
func (a *Archive) Problem(format string, args ...any) {
	text := string(a.Scrubber.Scrub(fmt.Appendf(nil, format, args...)))
	a.summary.Problems = append(a.summary.Problems, text)
	a.Progress("problem: " + text)
}

// Text adds a text without secrets.
func (a *Archive) Text(name string, content []byte, truncated bool) {
	a.add(name, a.Scrubber.Scrub(content), truncated)
}

// JSON adds a value. Its fields must not be such that hold secrets: texts in it are scrubbed.
func (a *Archive) JSON(name string, value any) {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		a.Problem("%s: %v", name, err)
		return
	}
	a.Text(name, data, false)
}

// Binary adds what is no text, such as a profile.
func (a *Archive) Binary(name string, content []byte) { a.add(name, content, false) }

func (a *Archive) add(name string, content []byte, truncated bool) {
	if int64(len(content)) > a.left {
		a.Problem("%s is left out: the archive would have more than %d MiB", name, a.MaxBytes>>20)
		return
	}
	a.left -= int64(len(content))
	a.summary.Entries = append(a.summary.Entries, Entry{Name: name, Bytes: int64(len(content)), Truncated: truncated})
	a.write(name, content)
}

func (a *Archive) write(name string, content []byte) {
	if a.failed != nil {
		return
	}
	a.failed = a.tar.WriteHeader(&tar.Header{
		Name: "tripod-debug/" + name, Mode: 0o600, Size: int64(len(content)), ModTime: a.began, Typeflag: tar.TypeReg,
	})
	if a.failed == nil {
		_, a.failed = a.tar.Write(content)
	}
}

var unsafe = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// fileName makes a part of a file's name of a text of others.
func fileName(text string) string {
	return strings.TrimLeft(unsafe.ReplaceAllString(text, "_"), ".")
}
