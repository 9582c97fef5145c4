// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package traffic is clients of a cluster for tests that disturb it: workers that read and write their own objects, and watchers of
// all of it. Unlike client-go they repeat nothing. They remember every request and every event, so that a test can
// say afterwards which requests failed, and that no watcher missed an event, saw one twice or in another order:
//
//	load := traffic.Start(t, traffic.Options{Customs: traffic.Customs}, cluster.Admin())
//	... // the cluster is disturbed
//	load.Finish(t)
//	load.FailsNever(t)
//	load.WatchesAreWell(t, false)
//	load.SawAll(t)
package traffic
