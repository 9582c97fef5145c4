// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"testing"
	"time"
)

// upTimeout is the time that a new cluster may take on a busy machine.
const upTimeout = 10 * time.Minute

// Main runs the tests of a package in a cluster whose name has suffix, then exits. It is for TestMain. It calls setup before the tests, and
// collect after a failure, before it removes the cluster.
func Main(m *testing.M, suffix string, setup func(context.Context, *Environment) error, collect func(*Environment) error, with ...Option) {
	os.Exit(run(m, suffix, setup, collect, with))
}

func run(m *testing.M, suffix string, setup func(context.Context, *Environment) error, collect func(*Environment) error, with []Option) int {
	flag.Parse()
	if list := flag.Lookup("test.list"); list != nil && list.Value.String() != "" {
		return m.Run()
	}
	interrupted, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(interrupted, upTimeout)
	defer cancel()
	e, err := Up(ctx, suffix, with...)
	code := 1
	if err == nil {
		if err = setup(ctx, e); err == nil {
			stop() // from here on an interrupt ends the process at once
			code = m.Run()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if e == nil || e.Cluster == nil {
		return 1
	}
	if code != 0 {
		if err := collect(e); err != nil {
			fmt.Fprintln(os.Stderr, "not everything was collected:", err)
		}
	}
	if err := e.Down(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
