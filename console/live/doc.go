// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package live follows the replicas of an instance or of a cluster while a page shows them: their states, their traffic, and when each
// changed.
//
// There are two sources (source.go): an instance on this machine, and the metrics of the aggregator that answers for any other cluster. A
// [Follower] has no goroutine. The request of a page waits for the next picture and asks the source itself, once in its interval at most.
// Other requests share the answer (follower.go). So a console without such a page does nothing. Counters become rates (rates.go), the views
// of all aggregators become one state (states.go), and changes stay for 15 minutes (timeline.go). Each of these has a bound.
//
// A [Session] has a follower for one session of a user, and ends it when no page is open. A [Room] bounds their number (session.go).
package live
