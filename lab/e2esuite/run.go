// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package e2esuite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/onsi/ginkgo/v2/types"

	"github.com/tripod-k8s/tripod/test/framework"
)

// Run is one run of ginkgo.
type Run struct {
	// Name is the name of the run. Its log, Dir/ginkgo-NAME.log, and its reports are called by it.
	Name, Dir string
	// Kubeconfig is that of the cluster's administrator.
	Kubeconfig string
	// Nodes is how many nodes the cluster has. 0 means as many as can take pods.
	Nodes int
	// Focus is ginkgo's --focus, and Labels its --label-filter.
	Focus, Labels string
	// Procs is how many specs run at a time, Attempts how often a spec may run until it passes.
	Procs, Attempts int
	// Timeout ends the run. Ginkgo skips specs that have not run by then.
	Timeout time.Duration
	// Ended is called when a spec has ended.
	Ended func(Ended)
}

// Log is the file with what ginkgo prints.
func (r Run) Log() string { return filepath.Join(r.Dir, "ginkgo-"+r.Name+".log") }

// JUnit is the file with ginkgo's report in JUnit's format.
func (r Run) JUnit() string { return filepath.Join(r.Dir, r.Name+".xml") }

func (r Run) json() string { return filepath.Join(r.Dir, r.Name+".json") }

// Do runs the specs. The results do not include skipped specs.
func (r Run) Do(ctx context.Context, env *framework.Environment) (Results, error) {
	if err := r.ginkgo(ctx, env, r.args(env)); err != nil {
		return nil, err
	}
	return readReport(r.json())
}

// List returns the specs that the labels and the focus choose, without running them. The value is true if a spec must run alone.
func (r Run) List(ctx context.Context, env *framework.Environment) (map[string]bool, error) {
	// Ginkgo does a dry run in one process only.
	r.Procs, r.Attempts, r.Timeout, r.Ended = 1, 1, time.Hour, func(Ended) {}
	args := r.args(env)
	if err := r.ginkgo(ctx, env, append([]string{"--dry-run"}, args...)); err != nil {
		return nil, err
	}
	found := map[string]bool{}
	err := eachSpec(r.json(), func(spec types.SpecReport) {
		if spec.State == types.SpecStatePassed {
			found[spec.FullText()] = slices.Contains(spec.Labels(), "Serial")
		}
	})
	return found, err
}

// ginkgo runs ginkgo to its end. That specs fail is no error.
func (r Run) ginkgo(ctx context.Context, env *framework.Environment, args []string) error {
	if err := os.Remove(r.json()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove an earlier report: %w", err)
	}
	process, err := env.Start(framework.Command{
		Name: "ginkgo-" + r.Name, Path: env.Binary("tools/ginkgo"), Dir: r.Dir, Output: newProgress(r.Ended), Args: args,
	})
	if err != nil {
		return err
	}
	select {
	case <-process.Done():
	case <-ctx.Done():
		// Ginkgo would wait while the specs clean up. Its processes are a group.
		return errors.Join(ctx.Err(), syscall.Kill(-process.PID(), syscall.SIGKILL), process.Stop())
	}
	if _, err := os.Stat(r.json()); err != nil {
		return fmt.Errorf("ginkgo ended with exit code %d and without a report, see %s", process.ExitCode(), process.Log)
	}
	return nil
}

func (r Run) args(env *framework.Environment) []string {
	args := []string{
		"--procs=" + strconv.Itoa(r.Procs), "--timeout=" + r.Timeout.String(), "--flake-attempts=" + strconv.Itoa(r.Attempts),
		"-v", "--no-color", "--silence-skips", "--output-dir=" + r.Dir,
		"--json-report=" + filepath.Base(r.json()), "--junit-report=" + filepath.Base(r.JUnit()),
	}
	if r.Focus != "" {
		args = append(args, "--focus="+r.Focus)
	}
	if r.Labels != "" {
		args = append(args, "--label-filter="+r.Labels)
	}
	args = append(args, suite(env)...)
	if r.Nodes > 0 {
		args = append(args, "--num-nodes="+strconv.Itoa(r.Nodes))
	}
	if r.Kubeconfig != "" {
		args = append(args, "--kubeconfig="+r.Kubeconfig)
	}
	return args
}

// suite are the suite and its flags.
func suite(env *framework.Environment) []string {
	return []string{
		env.Binary("test-assets/e2e.test"), "--",
		"--provider=skeleton", "--kubectl-path=" + env.Binary("test-assets/kubectl"), "--dump-logs-on-failure=false", "--disable-log-dump",
	}
}
