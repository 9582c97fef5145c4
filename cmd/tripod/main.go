// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command tripod runs Tripod on this machine: with `tripod up`, or in place of a kube-apiserver binary with
// `tripod kube-apiserver` or under the name kube-apiserver.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tripod-k8s/tripod/admin/connect"
	"github.com/tripod-k8s/tripod/local/kubeapiserver"
)

func main() {
	if filepath.Base(os.Args[0]) == kubeapiserver.Name {
		os.Exit(kubeapiserver.Main(os.Args[1:]))
	}
	if err := newRootCommand().Execute(); err != nil {
		var code connect.ExitCode
		if errors.As(err, &code) {
			os.Exit(int(code))
		}
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		os.Exit(1)
	}
}
