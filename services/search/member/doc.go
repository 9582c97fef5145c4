// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package member copies the objects of a cluster, a member, into the store: one stream for each resource.
//
// A stream goes on from the resourceVersion that the store has. If the member has forgotten it, or at the first time, the stream lists:
// with a streaming list if the member has that, and else in pages. It keeps no objects in memory besides the batch that it writes. While
// the store cannot be reached, the stream does not read either, so nothing is lost. While the member cannot be reached, everything that is
// known of it stays.
package member
