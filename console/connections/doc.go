// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package connections bounds the connections of a server whose clients are not known, so that no client keeps others out with connections
// that it does not use.
//
// A connection belongs to the network that it comes from. If a network has too many connections, or the server has, a new connection
// replaces one of that network, or of the largest network. So a client that floods closes connections of its own network only.
//
// Which one is replaced among those without a user is random: if it was the longest-unused one, a fast flood would close each handshake
// behind the same address translation. Idle connections of users stay while those without a user are more than half. A connection in use
// stays (Hold). Only if all of them are in use, the server refuses the new one.
package connections
