// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	// reportFlag makes ginkgo write a report. Tests without ginkgo do not have the flag.
	reportFlag = "ginkgo.json-report"
	// stopTimeout is how long the output of tests may stay open after they have ended.
	stopTimeout = 10 * time.Second
)

// tests are the tests of a package, built.
type tests struct {
	*checkout
	name string
	// path is the program, dir the folder of the package.
	path, dir string
}

// run runs all tests on one side, and then once more, alone, those that failed.
func (t *tests) run(ctx context.Context, s *side, timeout time.Duration) (*results, error) {
	usesGinkgo, err := t.hasFlag(ctx, reportFlag)
	if err != nil {
		return nil, err
	}
	started := time.Now()
	found, suite, err := t.once(ctx, s, timeout, usesGinkgo, nil, "")
	if err != nil {
		return nil, err
	}
	all := &results{Tests: found, Took: time.Since(started)}
	if failed := all.failed(); len(failed) > 0 {
		again, _, err := t.once(ctx, s, timeout, usesGinkgo, chooseTests(failed, suite), "-again")
		if err != nil {
			return nil, err
		}
		all.merge(&results{Tests: again})
	}
	return all, nil
}

// hasFlag asks the tests for their flags.
func (t *tests) hasFlag(ctx context.Context, name string) (bool, error) {
	output, err := exec.CommandContext(ctx, t.path, "-help").CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return false, fmt.Errorf("run the tests of %s: %w", t.name, err)
	}
	return strings.Contains(string(output), "-"+name), nil
}

// chooseTests returns the flags that choose tests by their names. suite is the name of the test that runs a ginkgo suite, or "".
func chooseTests(names []string, suite string) []string {
	var patterns, flags []string
	for _, name := range names {
		spec, isSpec := strings.CutPrefix(name, suite+"/")
		switch {
		case name == wholePackage, name == suite, suite != "" && isSpec && strings.HasPrefix(spec, "["):
			return nil // all tests depend on it
		case suite != "" && isSpec:
			flags = append(flags, "-ginkgo.focus="+regexp.QuoteMeta(numberAtEnd.ReplaceAllString(spec, "")))
			name = suite
		}
		parts := strings.Split(name, "/")
		for i, part := range parts {
			parts[i] = "^" + regexp.QuoteMeta(part) + "$"
		}
		patterns = append(patterns, strings.Join(parts, "/"))
	}
	slices.Sort(patterns)
	return append(flags, "-test.run="+strings.Join(slices.Compact(patterns), "|"))
}

// numberAtEnd is what addSpec appends to a name that several specs have.
var numberAtEnd = regexp.MustCompile(` \(\d+\)$`)

// once runs tests on one side. It returns their results, and the test that ran a ginkgo suite.
func (t *tests) once(ctx context.Context, s *side, timeout time.Duration, usesGinkgo bool, choice []string, suffix string) (_ map[string]result, suite string, err error) {
	log, err := os.Create(strings.TrimSuffix(t.path, ".test") + "-" + strings.ToLower(s.name) + suffix + ".log")
	if err != nil {
		return nil, "", fmt.Errorf("keep the output of the tests: %w", err)
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	temp, err := os.MkdirTemp("", "t-") // short, because of the limit on the paths of sockets
	if err != nil {
		return nil, "", fmt.Errorf("make a place for what the tests write: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()

	args := append([]string{"tool", "test2json", "-t", t.path, "-test.v=test2json", "-test.timeout=" + timeout.String()}, choice...)
	report := filepath.Join(temp, "report.json")
	if usesGinkgo {
		args = append(args, "-"+reportFlag+"="+report, "-ginkgo.seed=1", "-ginkgo.timeout="+timeout.String(), "-ginkgo.no-color")
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = t.dir
	cmd.Env = slices.Concat(os.Environ(), []string{"GOFLAGS=", "TMPDIR=" + temp, partitionsVariable + "=" + strings.Join(t.Partitions, " ")}, s.environment(), t.environment)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = stopTimeout
	var found map[string]result
	if found, suite, err = readTests(cmd, log); err != nil {
		return nil, "", errors.Join(err, s.endLeftovers())
	}
	if err := s.endLeftovers(); err != nil {
		return nil, "", err
	}
	if ctx.Err() != nil {
		return nil, "", ctx.Err()
	}
	if err := addSpecs(found, suite, report); err != nil {
		return nil, "", err
	}
	if len(found) == 0 && choice == nil {
		return nil, "", fmt.Errorf("no test of %s ran: look at %s", t.name, log.Name())
	}
	dropParents(found)
	return found, suite, nil
}

// readTests runs test2json and reads what it writes. The exit code of the tests adds nothing to that.
func readTests(cmd *exec.Cmd, log io.Writer) (found map[string]result, suite string, err error) {
	reader, writer := io.Pipe()
	cmd.Stdout, cmd.Stderr = writer, log
	read := make(chan error, 1)
	go func() {
		var err error
		found, suite, err = readEvents(reader, log)
		reader.CloseWithError(err)
		read <- err
	}()
	err = cmd.Run()
	writer.Close() //nolint:errcheck // it returns nil
	readErr := <-read
	var exit *exec.ExitError
	if errors.As(err, &exit) || errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("run the tests: %w", err)
	}
	return found, suite, errors.Join(err, readErr)
}
