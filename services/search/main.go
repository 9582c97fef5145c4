// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"

	"github.com/tripod-k8s/tripod/apiservice"
	"github.com/tripod-k8s/tripod/services/search/server"
	"github.com/tripod-k8s/tripod/services/search/templates"
)

func main() {
	templates.InterpretIfAsked()
	os.Exit(apiservice.Main(server.Service()))
}
