// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package connections bounds the connections of a server whose clients are not known, so that no client keeps others out with connections
// that it does not use.
//
// A connection belongs to the network that it comes from. If a network has too many connections, or the server has, a new connection
// replaces the longest-unused one of that network, or of the largest network. So a client that floods closes its own connections first, and
// a client behind the same address translation gets an answer, because its connection is the latest. A connection in use stays (Hold). Only
// if all of them are in use, the server refuses the new one.
package connections
