// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tripod-k8s/tripod/local/controllers"
	"github.com/tripod-k8s/tripod/local/names"
	"github.com/tripod-k8s/tripod/local/process"
)

// controllers reports whether the instance runs the controllers of Kubernetes.
func (o *Options) controllers() bool { return o.Controllers || o.KwokNodes > 0 }

// longestName is the length of the longest name of a replica, except for those of additional API services.
func (o *Options) longestName() int {
	if o.controllers() {
		return len(names.Manager + "-0")
	}
	longest := len("extensions-0")
	for name := range o.divided() {
		longest = max(longest, len(name+"-0"))
	}
	return longest
}

func (i *instance) controllers() controllers.Config {
	return controllers.Config{
		Store: i.store, Authority: clusterCA, ServiceAccounts: serviceAccounts, Administrator: admin,
		URL: i.url(), Directory: i.dataDir.controllers(),
		Log: func(replica string) process.Output { return process.NewLogFile(i.dataDir.log(replica)) },
	}
}

// checkControllers returns an error if a program of the controllers is missing.
func (i *instance) checkControllers() error {
	if !i.options.controllers() {
		return nil
	}
	if _, err := controllers.Program(); err != nil || i.options.KwokNodes == 0 {
		return err
	}
	_, err := controllers.KwokProgram()
	return err
}

// startControllers starts the controllers, if they are wanted, and returns when they are ready and the nodes exist.
func (i *instance) startControllers(ctx context.Context) error {
	if !i.options.controllers() {
		return nil
	}
	config := i.controllers()
	processes, err := config.Processes()
	if err != nil {
		return err
	}
	if i.options.KwokNodes > 0 {
		kwok, err := config.KwokProcess()
		if err != nil {
			return err
		}
		processes = append(processes, kwok)
	}
	var children []*process.Child
	for _, one := range processes {
		children = append(children, i.group.Start(one))
	}
	if err := i.fleet.AwaitReady(ctx, children...); err != nil {
		return err
	}
	return i.ensureNodes(ctx)
}

// ensureNodes creates the nodes of kwok that are missing. Those of a start with more nodes stay.
func (i *instance) ensureNodes(ctx context.Context) error {
	if i.options.KwokNodes == 0 {
		return nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", i.dataDir.Kubeconfig())
	if err != nil {
		return fmt.Errorf("cannot read the kubeconfig: %w", err)
	}
	config.QPS = -1 // there is no other client to wait for
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	return controllers.EnsureNodes(ctx, client, i.options.KwokNodes)
}
