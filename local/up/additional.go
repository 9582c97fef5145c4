// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tripod-k8s/tripod/local/names"
	"github.com/tripod-k8s/tripod/local/process"
	"github.com/tripod-k8s/tripod/local/replicas"
)

// additionalPrograms returns the programs of additional API services by name, or what is wrong with --service.
func (o *Options) additionalPrograms() (map[string]string, error) {
	programs := map[string]string{}
	for _, given := range o.Services {
		name, path, ok := strings.Cut(given, "=")
		if !ok || path == "" {
			return nil, fmt.Errorf("--service %q is not of the form NAME=PATH", given)
		}
		if err := names.ValidateService(name); err != nil && !o.Optional[name] {
			return nil, fmt.Errorf("--service: %w", err)
		}
		if programs[name] != "" {
			return nil, fmt.Errorf("--service: there is a process %q already: choose another name", name)
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("--service %s: %w", name, err)
		}
		if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			return nil, fmt.Errorf("--service %s: %s is not an executable file", name, path)
		}
		programs[name] = path
	}
	return programs, nil
}

// additionalServices returns the names of the additional API services. The options are valid.
func (o *Options) additionalServices() []string {
	var names []string
	for _, given := range o.Services {
		name, _, _ := strings.Cut(given, "=")
		names = append(names, name)
	}
	return names
}

// services returns the names of all services, in the order in which they start.
func (o *Options) services() []string {
	return slices.Concat([]string{replicas.Core, replicas.Extensions}, o.beside(), []string{replicas.Aggregator})
}

// serviceArgs returns the flags of an additional API service, or of all if the name is empty.
func (o *Options) serviceArgs(name string) ([]string, error) {
	var args []string
	for _, given := range o.ServiceArgs {
		to, flag, ok := strings.Cut(given, "=")
		if !ok || !strings.HasPrefix(flag, "-") {
			return nil, fmt.Errorf("--service-arg %q is not of the form NAME=--FLAG", given)
		}
		if !o.Optional[to] && !slices.Contains(o.additionalServices(), to) {
			return nil, fmt.Errorf("--service-arg: there is no --service %s=PATH", to)
		}
		if to == name {
			args = append(args, flag)
		}
	}
	return args, nil
}

// completeServices makes the paths of the additional API services absolute.
func (o *Options) completeServices() error {
	for i, given := range o.Services {
		name, path, _ := strings.Cut(given, "=")
		absolute, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		o.Services[i] = name + "=" + absolute
	}
	return nil
}

// etcdDirectory returns the directory in etcd that an additional API service has for itself. Its keys are not those of custom resources,
// which may have the same group.
func etcdDirectory(service string) string { return "/services/" + service }

// additionalService returns the flags of an additional API service.
func (a *arguments) additionalService(service, replica string) []string {
	args := append(a.every(service, replica), "--etcd-prefix="+etcdDirectory(service))
	own, _ := a.options.serviceArgs(service) // they are valid
	return append(args, forReplica(replica, own)...)
}

// explain returns a probe of an additional API service that says why its program may never be ready: any program can be given.
func explain(ready func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := ready(ctx)
		if errors.Is(err, process.ErrNotListening) {
			return fmt.Errorf("%w at --probe-bind-address, as programs do that are built with the module apiservice (docs/extend.md)", err)
		}
		return err
	}
}

// unreadyAgain is when to report for the second and last time that an additional API service is not ready.
const unreadyAgain = 15 * time.Second

// sayUnready says which of the additional API services are not ready. Nothing waits for them.
func (i *instance) sayUnready(ctx context.Context, children []*process.Child) {
	for _, pause := range []time.Duration{0, unreadyAgain} {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		for _, child := range children {
			if status := child.Status(); !status.Ready {
				i.printLine(status.Replica, "not ready: "+status.Message)
			}
		}
	}
}
