// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package live follows the replicas of an instance while a page shows them: their states, their traffic, and when each changed.
//
// A [Follower] has no goroutine. The request of a page waits for the next picture and asks the instance itself, once a second at most, and
// other requests share the answer (follower.go). So a console without such a page does nothing. Counters become rates (rates.go), the views
// of all aggregators become one state (states.go), and changes stay for 15 minutes (timeline.go). Each of these has a bound.
package live
