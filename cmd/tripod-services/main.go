// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command tripod-services is each of the services that together are the API server. Its name says which: tripod-aggregator, tripod-core and
// tripod-extensions are links to it.
//
// Services that run on one machine share the pages of one program in memory, and an image with all three has it once. The program is
// little larger than core alone, because all three are built on the same libraries. Measured on 2026-11-30, three services of `tripod up`
// at rest took 279 MB together, and 378 MB as three programs (the sum of Pss in /proc/PID/smaps_rollup). The programs take 100 MB of disk
// instead of 234 MB.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	_ "time/tzdata" // time zones of CronJobs, where the system has none

	"github.com/tripod-k8s/tripod/services/aggregator"
	"github.com/tripod-k8s/tripod/services/core"
	"github.com/tripod-k8s/tripod/services/extensions"
	"github.com/tripod-k8s/tripod/services/list"
)

// mains has the main function of each service.
var mains = map[string]func() int{list.Aggregator: aggregator.Main, list.Core: core.Main, list.Extensions: extensions.Main}

func main() { os.Exit(run(os.Args[0], os.Stderr)) }

// run runs the service that the name of the program says, and returns the exit code of the process.
func run(name string, stderr io.Writer) int {
	var names []string
	for _, service := range list.RequiredNames() {
		if filepath.Base(name) == list.Program(service) {
			return mains[service]()
		}
		names = append(names, list.Program(service))
	}
	fmt.Fprintf(stderr, "error: this program is several services, and its name says which one runs; "+
		"start it by a link with one of these names: %s\n", strings.Join(names, ", "))
	return 2
}
