// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/tripod-k8s/tripod/test/framework"
)

var (
	environment *framework.Environment
	// fleet is shared by all tests.
	fleet *dataPlane
	// long asks for the long form of tests.
	long = os.Getenv("TRIPOD_LONG") != ""
)

func TestMain(m *testing.M) {
	framework.Main(m, func(ctx context.Context, env *framework.Environment) (err error) {
		environment = env
		fleet, err = startFleet(ctx, env)
		return err
	})
}

// giveUp ends a wait that would never end; it says nothing about how fast anything is.
const giveUp = 2 * time.Minute

// must returns value where it is not interesting how a call failed.
func must[T any](t testing.TB, value T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// either returns the first value in the short form of tests, and the second in the long one.
func either[T any](short, longer T) T {
	if long {
		return longer
	}
	return short
}

// milliseconds is how tests print a time.
func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}
