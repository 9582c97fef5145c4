// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apitest gives a Go test a Kubernetes API with an API service behind it: Tripod's aggregator, core and extensions with an etcd,
// and replicas of the service, on loopback. It needs no cluster, no container and no root. It needs the program tripod, in the PATH, of the
// release whose module apiservice the service uses.
//
// The test binary is also the program of the service. TestMain hands it over:
//
//	func TestMain(m *testing.M) { os.Exit(apitest.Main(m, service())) }
//
//	func TestBooks(t *testing.T) {
//		t.Parallel()
//		api := apitest.Start(t, service())
//		client, err := dynamic.NewForConfig(api.User("jane"))
//		...
//	}
//
// So a service runs in processes of its own, as it does in production, and a test can kill, freeze and roll its replicas. `go test -race`
// also finds the races of the service. The replicas share no variable with the test: what a test and the service must both know, such as
// the address of a database, goes through [Options.Args].
//
// Each [Start] is an instance of its own, so tests may run in parallel. An instance ends with its test. On Linux its processes end with the
// test binary too, if that panics, is killed, or runs out of time.
package apitest
