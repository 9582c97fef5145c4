// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clients bounds the connections of clients, so that no client takes the memory of the aggregator by connections, or by requests on
// them whose sender is not known yet.
//
// A connection counts with what an idle one costs, and with what it has sent without a request. It belongs to the address that it comes
// from, and from its first request on to the user of that request. When connections take more than they may, the aggregator closes one for
// each new one: of those that are not in use, the one that has been so for longest, of the user who has most of them. So a client that
// floods closes its own connections. Only if all are in use, the aggregator refuses the new one.
//
// A connection is in use while a request is in flight on it whose sender is known. So connections in a handshake, those that send half a
// request, and those whose requests wait for authentication can be closed. Connections in use are bounded by their requests (package
// requestmemory).
//
// Connections of services, and that of the aggregator to itself, do not count, and stay.
package clients
