// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package traffic has clients for tests that disturb a cluster: workers read and write their own objects, and watchers watch all of these objects.
// Unlike client-go, no client retries. Clients remember every request and every event. So a test sees afterwards which requests failed, and
// whether a watcher missed an event, or got one twice or in another order:
//
//	load := traffic.Start(t, traffic.Options{Customs: traffic.Customs}, cluster.Admin())
//	... // disturb the cluster
//	load.Finish(t)
//	load.FailsNever(t)
//	load.WatchesAreWell(t, false)
//	load.SawAll(t)
package traffic
