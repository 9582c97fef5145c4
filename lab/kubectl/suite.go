// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/tripod-k8s/tripod/test/framework"
)

// The sides that are compared, as their logs are called.
const (
	stockSide  = "stock"
	tripodSide = "tripod"
)

// stopTimeout is how long a process may keep the output open after the scripts have ended.
const stopTimeout = 10 * time.Second

// runSuite runs the scripts on one side and returns the results.
func runSuite(ctx context.Context, side, only string) (_ results, err error) {
	root, err := os.MkdirTemp("", "kubectl-suite-")
	if err != nil {
		return nil, fmt.Errorf("make a place for the scripts: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
	if err := makeTree(ctx, root, side); err != nil {
		return nil, err
	}
	env, err := scriptEnvironment(root, only)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(logDir, 0o755); err != nil {
		return nil, fmt.Errorf("make a place for the logs: %w", err)
	}
	log, err := os.Create(filepath.Join(logDir, side+".log"))
	if err != nil {
		return nil, fmt.Errorf("keep the output of the scripts: %w", err)
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	fmt.Printf("%s: output goes to %s\n", side, log.Name())

	outcome := newOutcome(func(line string) { fmt.Printf("%s: %s\n", side, line) })
	script := exec.CommandContext(ctx, "bash", "hack/make-rules/test-cmd.sh")
	script.Dir, script.Env = root, env
	err = runGroup(script, io.MultiWriter(log, framework.Lines(outcome.line)))
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, fmt.Errorf("run the scripts: %w", err)
	}
	return outcome.end(), nil
}

// runGroup runs a command, and ends all processes that it started.
func runGroup(command *exec.Cmd, output io.Writer) error {
	command.Stdout, command.Stderr = output, output
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// After an interrupt, the scripts would go on with the remaining tests, without servers.
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = stopTimeout
	if err := command.Start(); err != nil {
		return err
	}
	err := command.Wait()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // something that it has started still had its output open
	}
	if killErr := syscall.Kill(-command.Process.Pid, syscall.SIGKILL); killErr != nil && !errors.Is(killErr, syscall.ESRCH) {
		err = errors.Join(err, killErr)
	}
	return err
}

// scriptEnvironment returns the environment of the scripts, which write only below root.
func scriptEnvironment(root, only string) ([]string, error) {
	assets, err := filepath.Abs(assetsDir)
	if err != nil {
		return nil, err
	}
	temp := filepath.Join(root, "tmp")
	if err := os.Mkdir(temp, 0o700); err != nil {
		return nil, fmt.Errorf("make a place for the scripts: %w", err)
	}
	apiPort, err := framework.FreePort()
	if err != nil {
		return nil, err
	}
	etcdPort, err := framework.FreePort()
	if err != nil {
		return nil, err
	}
	return append(os.Environ(),
		"PATH="+assets+string(os.PathListSeparator)+os.Getenv("PATH"),
		"TMPDIR="+temp,
		"SECURE_API_PORT="+strconv.Itoa(apiPort),
		"ETCD_PORT="+strconv.Itoa(etcdPort),
		"SERVICE_ACCOUNT_KEY="+filepath.Join(temp, "service-account.key"),
		"KUBE_JUNIT_REPORT_DIR="+filepath.Join(temp, "junit"),
		"KUBEADM_PATH=kubeadm", // not used: the makefile does not test it
		onlyVariable+"="+only,
	), nil
}

// kubernetesDir returns the folder of the module with the scripts.
func kubernetesDir(ctx context.Context) (string, error) {
	output, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		return "", fmt.Errorf("find the sources of Kubernetes: %w", err)
	}
	return string(bytes.TrimSpace(output)), nil
}
