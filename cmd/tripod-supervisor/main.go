// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command tripod-supervisor runs the services behind `tripod kube-apiserver`, which replaces itself by this program.
package main

import (
	"os"

	"github.com/tripod-k8s/tripod/local/supervisor"
)

func main() { os.Exit(supervisor.Main()) }
