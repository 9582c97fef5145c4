// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"

	"github.com/tripod-k8s/tripod/base/service"
	"github.com/tripod-k8s/tripod/services/aggregator/options"
	"github.com/tripod-k8s/tripod/services/aggregator/server"
)

const description = "tripod-aggregator is the public endpoint of Tripod. It proxies by APIService to core, extensions and other API " +
	"servers."

func main() {
	os.Exit(service.Main(description, options.New(), server.NewConfig, server.New))
}
