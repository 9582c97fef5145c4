// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package linearizability has clients use the same few objects at the same time while replicas of all services are killed,
// stopped and paused, and judges afterwards what they saw (package history). Failing requests are no failure here: their
// outcome is unknown, and everything else must fit. Package dataplane is about the requests that fail.
//
// The test goes on in rounds for as long as LINEARIZABILITY, such as 15m; without it there is one round. A round has new
// objects, so that what is to be judged stays small. Each begins with a seed that it prints; LINEARIZABILITY_SEED repeats the choices of
// one, though not what comes of them.
package linearizability
