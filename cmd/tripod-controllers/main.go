// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command tripod-controllers is kube-controller-manager and kube-scheduler in one binary, unchanged. `tripod up --controllers` runs both.
package main

import (
	"fmt"
	"os"
	_ "time/tzdata" // time zones of CronJobs, where the system has none

	"github.com/spf13/cobra"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of clients
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	programs := map[string]func() *cobra.Command{
		"kube-controller-manager": controllermanager.NewControllerManagerCommand,
		"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	}
	if len(os.Args) < 2 || programs[os.Args[1]] == nil {
		fmt.Fprintf(os.Stderr, "Error: usage: %s kube-controller-manager|kube-scheduler [FLAGS]\n", os.Args[0])
		os.Exit(1)
	}
	program := programs[os.Args[1]]
	os.Args = os.Args[1:]
	os.Exit(cli.Run(program()))
}
