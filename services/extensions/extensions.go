// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package extensions

import (
	"github.com/tripod-k8s/tripod/base/service"
	"github.com/tripod-k8s/tripod/services/extensions/options"
	"github.com/tripod-k8s/tripod/services/extensions/server"
)

const description = "tripod-extensions serves CustomResourceDefinitions and custom resources, behind Tripod's aggregator."

// Main runs the service with the arguments of the command line, and returns the exit code of the process.
func Main() int { return service.Main(description, options.New(), server.NewConfig, server.New) }
