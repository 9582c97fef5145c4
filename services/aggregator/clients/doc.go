// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clients bounds the connections of clients, so that no client takes the memory of the aggregator by connections, or by requests on
// them whose sender is not authenticated yet.
//
// A connection counts with what an idle one costs, and with what it has sent without a request. It belongs to the address that it comes
// from, and from its first request on to the user of that request. When connections reach their limit of memory, the aggregator closes one
// for each new one: the longest-idle connection of the owner with most idle connections. So a client that floods closes its own
// connections. Only if all are in use, the aggregator refuses the new one.
//
// A connection is in use while a request is in flight on it whose sender is authenticated. So connections in a handshake, those that send
// half a request, and those whose requests wait for authentication can be closed. Connections in use are bounded by their requests (package
// requestmemory).
//
// Connections of services, and that of the aggregator to itself, do not count, and stay.
package clients
