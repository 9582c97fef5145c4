// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package framework starts the real binaries for tests: Tripod, a stock kube-apiserver, and whatever a test needs
// beside them.
//
// A package shares its clusters between its tests; an [Environment] owns them, stops them at the end and keeps their
// logs in artifacts/ when something failed:
//
//	var tripod *framework.Tripod
//
//	func TestMain(m *testing.M) {
//		framework.Main(m, func(ctx context.Context, env *framework.Environment) (err error) {
//			tripod, err = env.StartTripod(ctx, framework.TripodOptions{})
//			return err
//		})
//	}
//
//	func TestSomething(t *testing.T) {
//		client := kubernetes.NewForConfigOrDie(tripod.Admin())
//		namespace := framework.CreateNamespace(t, tripod.Cluster)
//		...
//		framework.Eventually(t, "the object appears", func(ctx context.Context) error { ... })
//	}
//
// A test that breaks its cluster on purpose has one of its own, from [ForTest].
//
// The binaries are those in bin/; `make build test-assets` makes them.
package framework
