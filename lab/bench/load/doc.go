// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package load sends requests to an API server and measures how long they take.
//
// [Offer] sends at a fixed rate, whether or not answers arrive. The time of a request counts from when it was due. So a server that
// hesitates is charged with all requests that had to wait, not only with those that it had received. (Closed loops have this flaw,
// coordinated omission.) [Saturate] is a closed loop; it shows how much a server can do.
package load
