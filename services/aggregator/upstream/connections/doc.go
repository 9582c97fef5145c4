// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package connections sends requests to one replica over connections of its own, and says of every
// request that got no answer whether the replica can have processed it.
//
// net/http's Transport does not: it repeats requests by itself, some of them (after a PROTOCOL_ERROR,
// or with an Idempotency-Key) although they may have been processed, and does not tell what it knows.
// So connections are made and kept here, and requests sent by net/http's ClientConn, for HTTP/1.1,
// and x/net/http2's, which do neither.
//
// There are two kinds of connections to a replica, because measurement (BenchmarkWire) says so:
//
//   - Multiplexed ones, over HTTP/2, for watches and for what changes something. There can be many
//     watches, and a server that stops says exactly which requests it has not processed.
//   - Exclusive ones, over HTTP/1.1, for short reads: a third less work for an object, and less than
//     half for a long list. Reads can be repeated when a server closes an idle connection at the
//     moment at which it is used. Tunnels need one, too, and so do anonymous requests: an API server
//     ends the HTTP/2 connection of an anonymous request (CVE-2023-44487). Those for reads are not
//     net/http's (see lean).
package connections
