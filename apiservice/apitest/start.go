// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tripod-k8s/tripod/apiservice"
)

const (
	// interval is the pause between two requests of the test that wait for something, and statusInterval that between two looks at all
	// processes, which start a program.
	interval, statusInterval = 20 * time.Millisecond, 200 * time.Millisecond
	// defaultTimeout bounds each wait. A busy machine takes long to start a dozen processes.
	defaultTimeout = 3 * time.Minute
	// shownLines is how much of a log a test that fails shows.
	shownLines = 30
)

// Options say how to start an API.
type Options struct {
	// Replicas is the number of replicas of the service. It is 1 if zero.
	Replicas int
	// Args are flags of the service, such as --database=FILE.
	Args []string
	// UpArgs are flags of `tripod up`, such as --core-replicas=2.
	UpArgs []string
	// Program is the path of the program tripod. It is the one in the PATH if empty.
	Program string
	// Timeout bounds each wait of the test for the API. It is 3 minutes if zero.
	Timeout time.Duration
}

// API is a running Kubernetes API with a service behind it. Its methods end the test if they fail.
type API struct {
	t       testing.TB
	service apiservice.Service
	options Options
	// data is the data directory of the instance.
	data  string
	up    *process
	users users
	admin *rest.Config
}

// Start starts an API with the service behind it, as [Options.Start] does without options.
func Start(t testing.TB, service apiservice.Service) *API {
	t.Helper()
	return Options{}.Start(t, service)
}

// Start starts an API with the service behind it. It returns when clients find everything that the service serves. The API ends with the
// test, which shows the end of the logs if it failed.
func (o Options) Start(t testing.TB, service apiservice.Service) *API {
	t.Helper()
	o.Replicas, o.Timeout = cmp.Or(o.Replicas, 1), cmp.Or(o.Timeout, defaultTimeout)
	a := &API{t: t, service: service, options: o}
	if err := a.start(); err != nil {
		t.Fatalf("apitest: %v", err)
	}
	return a
}

func (a *API) start() error {
	name := a.service.Name
	if !known[name] {
		return fmt.Errorf("the test binary does not know the service %q: write func TestMain(m *testing.M) { os.Exit(apitest.Main(m, ...)) } "+
			"with it", name)
	}
	if a.options.Program == "" {
		program, err := exec.LookPath("tripod")
		if err != nil {
			return errors.New(
				"the program tripod is not in the PATH: install it, or build it in a checkout by `make build` and add its bin to the PATH")
		}
		a.options.Program = program
	}
	// The data directory has a socket, whose path may not be long. That of t.TempDir is.
	dir, err := os.MkdirTemp("", "apitest-")
	if err != nil {
		return err
	}
	a.t.Cleanup(func() { _ = os.RemoveAll(dir) }) // after the instance has ended
	a.data = filepath.Join(dir, "data")
	if err := a.startUp(dir); err != nil {
		return err
	}
	if a.admin, err = clientcmd.BuildConfigFromFlags("", filepath.Join(a.data, "kubeconfig")); err != nil {
		return err
	}
	if err := a.users.open(filepath.Join(dir, "users"), filepath.Join(a.data, "pki")); err != nil {
		return err
	}
	if a.options.Replicas > 1 {
		if _, err := a.tripod("scale", name, fmt.Sprintf("--replicas=%d", a.options.Replicas)); err != nil {
			return err
		}
		a.WaitReady()
	}
	return a.awaitService()
}

// startUp runs `tripod up` until the test ends, and returns when it is ready. The service may not be.
func (a *API) startUp(dir string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	program := filepath.Join(dir, a.service.Name)
	if err := os.Symlink(self, program); err != nil {
		return err
	}
	args := []string{"up", "--data-dir=" + a.data, "--port=0", "--service=" + a.service.Name + "=" + program}
	for _, arg := range a.options.Args {
		args = append(args, "--service-arg="+a.service.Name+"="+arg)
	}
	command := exec.Command(a.options.Program, append(args, a.options.UpArgs...)...) //nolint:noctx // stop ends it, in order
	command.Env = append(os.Environ(), serveVariable+"="+a.service.Name)
	if a.up, err = startProcess(command, "Tripod is ready"); err != nil {
		return err
	}
	a.t.Cleanup(func() {
		if a.t.Failed() {
			a.showLogs()
		}
		a.up.stop(a.options.Timeout)
	})
	select {
	case <-a.up.announced:
		return nil
	case <-a.up.ended:
		return fmt.Errorf("`tripod up` ended: %w\n%s", a.up.err, a.up.output())
	case <-time.After(a.options.Timeout):
		return fmt.Errorf("Tripod is not ready after %s\n%s", a.options.Timeout, a.up.output())
	}
}

// awaitService waits until clients find each group-version of the service.
func (a *API) awaitService() error {
	client, err := discovery.NewDiscoveryClientForConfig(a.admin)
	if err != nil {
		return err
	}
	for _, group := range a.service.Groups {
		for _, version := range group.Versions {
			gv := schema.GroupVersion{Group: group.Name, Version: version}.String()
			if err := a.wait(interval, func(context.Context) error {
				list, err := client.ServerResourcesForGroupVersion(gv)
				if err == nil && len(list.APIResources) == 0 {
					err = errors.New("it has no resources")
				}
				return err
			}); err != nil {
				return fmt.Errorf("the API has no %s: %w\n%s", gv, err, lastLines(a.Log(a.service.Name+"-0")))
			}
		}
	}
	return nil
}

// wait looks again until there is no error. It returns the last one if the instance or the timeout ends.
func (a *API) wait(every time.Duration, look func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(a.t.Context(), every, a.options.Timeout, true, func(ctx context.Context) (bool, error) {
		select {
		case <-a.up.ended:
			return false, fmt.Errorf("`tripod up` ended: %w\n%s", a.up.err, a.up.output())
		default:
		}
		if err := look(ctx); ctx.Err() == nil || last == nil {
			last = err
		}
		return last == nil, nil
	})
	if wait.Interrupted(err) {
		return fmt.Errorf("%w (after %s)", last, a.options.Timeout)
	}
	return err
}

// Admin returns how an administrator reaches the API, in the group system:masters.
func (a *API) Admin() *rest.Config { return rest.CopyConfig(a.admin) }

// Kubeconfig returns the path of the administrator's kubeconfig, for programs such as kubectl.
func (a *API) Kubeconfig() string { return filepath.Join(a.data, "kubeconfig") }

// Log returns the path of the log of a replica, such as core-0 or NAME-0.
func (a *API) Log(replica string) string { return filepath.Join(a.data, "logs", replica+".log") }

// tripod runs a command for this instance.
func (a *API) tripod(args ...string) ([]byte, error) {
	command := exec.CommandContext(a.t.Context(), a.options.Program, append(args, "--data-dir="+a.data)...)
	output, err := command.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil, fmt.Errorf("tripod %s: %s", strings.Join(args, " "), bytes.TrimSpace(exit.Stderr))
	}
	return output, err
}

// showLogs shows the last output of the service and of `tripod up`.
func (a *API) showLogs() {
	logs, _ := filepath.Glob(a.Log(a.service.Name + "-*"))
	for _, log := range logs {
		a.t.Logf("the end of %s:\n%s", filepath.Base(log), lastLines(log))
	}
	a.t.Logf("tripod up:\n%s", a.up.output())
}

func lastLines(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-shownLines):], "\n")
}
