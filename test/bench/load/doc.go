// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package load sends requests to an API server and measures how long they take.
//
// [Offer] sends at a fixed rate, whether or not answers come: the time of a request counts from when it was due, so that a
// server that hesitates is charged with all requests that had to wait, and not only with the one that was on its way
// (the coordinated omission that closed loops have). [Saturate] is such a closed loop; it tells how much a server can do.
package load
