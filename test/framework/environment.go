// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// startTimeout is how long the clusters of a test may take to become ready on a busy machine.
const startTimeout = 5 * time.Minute

// Environment owns what a test, or all tests of a package, started.
type Environment struct {
	// Dir holds the data directories and logs, until the end.
	Dir string

	root, name string

	mu    sync.Mutex
	names map[string]int
	stops []func() error
	logs  map[string][]string
}

// Main runs the tests of a package with the clusters that setup starts, and exits. It is for TestMain.
func Main(m *testing.M, setup func(context.Context, *Environment) error) {
	os.Exit(run(m, setup))
}

func run(m *testing.M, setup func(context.Context, *Environment) error) int {
	flag.Parse()
	if list := flag.Lookup("test.list"); list != nil && list.Value.String() != "" {
		return m.Run()
	}
	wd, err := os.Getwd()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	env, err := New(filepath.Base(wd))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	code := 1
	if err = setup(ctx, env); err == nil {
		code = m.Run()
	}
	if err := errors.Join(err, env.Close(code != 0)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// ForTest returns an environment that ends with the test.
func ForTest(t testing.TB) *Environment {
	t.Helper()
	env, err := New(t.Name())
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, env.Close(t.Failed()))
	})
	return env
}

// New returns an environment for a program that is not a test. name is its folder in artifacts/.
func New(name string) (*Environment, error) {
	root, err := RepositoryRoot()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "tripod-") // short, because of the limit on the paths of sockets
	if err != nil {
		return nil, fmt.Errorf("cannot make a directory for the test: %w", err)
	}
	return &Environment{
		Dir:   dir,
		root:  root,
		name:  strings.NewReplacer("/", "-", " ", "-").Replace(name),
		names: map[string]int{},
		logs:  map[string][]string{},
	}, nil
}

// Binary returns the path of a program in bin/, such as tripod or test-assets/kube-controller-manager.
func (e *Environment) Binary(name string) string { return filepath.Join(e.root, "bin", name) }

// Start starts a program. The environment stops it, and keeps its log after a failure. Dir of the command defaults to a new directory.
func (e *Environment) Start(command Command) (*Process, error) {
	if command.Dir == "" {
		dir, err := e.newDir(command.Name)
		if err != nil {
			return nil, err
		}
		command.Dir = dir
	}
	process, err := command.Start()
	if err != nil {
		return nil, err
	}
	e.own(process.Stop, filepath.Base(command.Dir), process.Log)
	return process, nil
}

// newDir creates a directory called name, or name-2 and so on if that exists.
func (e *Environment) newDir(name string) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.names[name]++
	if n := e.names[name]; n > 1 {
		name = fmt.Sprintf("%s-%d", name, n)
	}
	dir := filepath.Join(e.Dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", fmt.Errorf("cannot make a directory for the test: %w", err)
	}
	return dir, nil
}

// own makes Close call stop, in reverse order. After a failure, Close keeps the files that match the patterns of logs.
func (e *Environment) own(stop func() error, name string, logs ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stops = append(e.stops, stop)
	e.logs[name] = append(e.logs[name], logs...)
}

// NewKept creates a directory whose files are kept after a failure, and returns where they will be.
func (e *Environment) NewKept(name string) (dir, kept string, err error) {
	if dir, err = e.newDir(name); err != nil {
		return "", "", err
	}
	e.own(func() error { return nil }, name, filepath.Join(dir, "*"))
	return dir, filepath.Join(e.artifacts(), name), nil
}

// artifacts is where logs are kept.
func (e *Environment) artifacts() string { return filepath.Join(e.root, "artifacts", e.name) }

// Close stops everything in reverse order, and keeps the logs if something failed.
func (e *Environment) Close(failed bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	for _, stop := range slices.Backward(e.stops) {
		errs = append(errs, stop())
	}
	if failed || errors.Join(errs...) != nil {
		errs = append(errs, e.keepLogs())
	}
	return errors.Join(append(errs, os.RemoveAll(e.Dir))...)
}

// keepLogs copies the logs to artifacts/NAME in the repository.
func (e *Environment) keepLogs() error {
	target := e.artifacts()
	if err := os.RemoveAll(target); err != nil {
		return fmt.Errorf("cannot keep logs: %w", err)
	}
	for name, patterns := range e.logs {
		dir := filepath.Join(target, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("cannot keep logs: %w", err)
		}
		for _, pattern := range patterns {
			files, err := filepath.Glob(pattern)
			if err != nil {
				return fmt.Errorf("cannot keep logs: %w", err)
			}
			for _, file := range files {
				if err := copyFile(file, filepath.Join(dir, filepath.Base(file)), 0o644); err != nil {
					return fmt.Errorf("cannot keep logs: %w", err)
				}
			}
		}
	}
	fmt.Fprintln(os.Stderr, "logs are in", target)
	return nil
}

func copyFile(from, to string, mode os.FileMode) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, mode)
}

// RepositoryRoot returns the nearest directory with a go.work, from the working directory upwards.
func RepositoryRoot() (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("cannot find the repository: %w", err)
	}
	for dir := wd; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.work in %s or above", wd)
		}
	}
}
