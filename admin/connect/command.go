// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"k8s.io/client-go/tools/clientcmd"
)

// HoldSignals keeps signals from ending the process while there is a kubeconfig to remove, also a second Ctrl-C. A write to a pipe that
// nothing reads any more returns an error. Its signal ends nothing: connections of the tunnel that break send it, too.
func HoldSignals() (signals <-chan os.Signal, letGo func()) {
	ending := []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT}
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		ending = append(ending, syscall.SIGHUP)
	}
	received, broken := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(received, ending...)
	signal.Notify(broken, syscall.SIGPIPE)
	return received, func() {
		signal.Stop(received)
		signal.Stop(broken)
	}
}

// ExitCode is the error of a command that has printed itself what is wrong. tripod ends with this code.
type ExitCode int

func (c ExitCode) Error() string { return fmt.Sprintf("the command ended with exit code %d", int(c)) }

// RunCommand runs a command with a kubeconfig. A terminal sends SIGINT and SIGQUIT to the command, too, so only the others are passed on.
func RunCommand(ctx context.Context, kubeconfig string, command []string, signals <-chan os.Signal) error {
	child := exec.CommandContext(ctx, command[0], command[1:]...)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	child.Env = append(os.Environ(), clientcmd.RecommendedConfigPathEnvVar+"="+kubeconfig)
	if err := child.Start(); err != nil {
		return err
	}
	done, passed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(passed)
		for {
			select {
			case s := <-signals:
				if s == syscall.SIGTERM || s == syscall.SIGHUP {
					_ = child.Process.Signal(s) // it may have ended
				}
			case <-done:
				return
			}
		}
	}()
	err := child.Wait()
	close(done)
	<-passed
	var failed *exec.ExitError
	if !errors.As(err, &failed) {
		return err
	}
	if status, ok := failed.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return ExitCode(128 + int(status.Signal())) // as shells do
	}
	return ExitCode(failed.ExitCode())
}
