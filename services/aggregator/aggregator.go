// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"github.com/tripod-k8s/tripod/base/service"
	"github.com/tripod-k8s/tripod/services/aggregator/options"
	"github.com/tripod-k8s/tripod/services/aggregator/server"
)

const description = "tripod-aggregator is the public endpoint of Tripod. It proxies by APIService to core, extensions and other API " +
	"servers."

// Main runs the service with the arguments of the command line, and returns the exit code of the process.
func Main() int { return service.Main(description, options.New(), server.NewConfig, server.New) }
