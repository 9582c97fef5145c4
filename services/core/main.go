// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	_ "time/tzdata" // time zones of CronJobs, where the system has none

	"github.com/tripod-k8s/tripod/base/service"
	"github.com/tripod-k8s/tripod/services/core/options"
	"github.com/tripod-k8s/tripod/services/core/server"
)

const description = "tripod-core serves the built-in API groups of Kubernetes, behind Tripod's aggregator."

func main() {
	os.Exit(service.Main(description, options.New(), server.NewConfig, server.New))
}
