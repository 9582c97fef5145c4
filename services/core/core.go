// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"github.com/tripod-k8s/tripod/base/service"
	"github.com/tripod-k8s/tripod/services/core/options"
	"github.com/tripod-k8s/tripod/services/core/server"
)

const description = "tripod-core serves the built-in API groups of Kubernetes, behind Tripod's aggregator."

// Main runs the service with the arguments of the command line, and returns the exit code of the process.
func Main() int { return service.Main(description, options.New(), server.NewConfig, server.New) }
