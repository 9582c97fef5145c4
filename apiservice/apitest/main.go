// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tripod-k8s/tripod/apiservice"
)

// serveVariable is set when the test binary was started as the program of a service. Its value is the name of the service.
const serveVariable = "TRIPOD_APITEST_SERVE"

// known are the names of the services that Main was given.
var known = map[string]bool{}

// Main runs the tests of a package, and returns the exit code for [os.Exit]. Call it in TestMain, with each service that a test starts. In
// a process that Tripod has started as a replica of one of them, it runs that service instead.
func Main(m *testing.M, services ...apiservice.Service) int {
	program := filepath.Base(os.Args[0])
	for _, service := range services {
		known[service.Name] = true
		if os.Getenv(serveVariable) != "" && program == service.Name {
			return apiservice.Main(service)
		}
	}
	return m.Run()
}
