// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"

	"github.com/tripod-k8s/tripod/base/service"
	"github.com/tripod-k8s/tripod/services/extensions/options"
	"github.com/tripod-k8s/tripod/services/extensions/server"
)

const description = "tripod-extensions serves CustomResourceDefinitions and custom resources, behind Tripod's aggregator."

func main() {
	os.Exit(service.Main(description, options.New(), server.NewConfig, server.New))
}
