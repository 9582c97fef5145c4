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
// There are two kinds of connections to a replica:
//
//   - Multiplexed ones, over HTTP/2, for watches and for what changes something. There can be many
//     watches, and a server that stops says exactly which requests it has not processed.
//   - Exclusive ones, over HTTP/1.1, for short reads. Reads can be repeated when a server closes an idle
//     connection at the moment at which it is used. Tunnels need one, too, and so do anonymous requests:
//     an API server ends the HTTP/2 connection of an anonymous request (CVE-2023-44487).
//
// # What it is worth
//
// Measured on 2026-11-22 on a machine with two CPUs, alone and beside a neighbour that keeps caches and
// memory busy. The processor time is that of all services together.
//
//   - Over HTTP/2 a LIST of 500 ConfigMaps takes 18 % more processor time, and 42 % beside the neighbour.
//     A GET takes about the same. Each way was used in turns for 0.4 s, 6 times, by 16 clients.
//
//   - If WINDOW_UPDATE frames are not delayed, an event delivered to 1,000 watchers takes 3.5 % more, and
//     2.2 % beside the neighbour (in turns: 3.8 % and 6.0 %), and 29 % more calls of read and write.
//     DIR has binaries without it:
//
//     make bench BENCH_ARGS='-sides "" -variant with=bin -variant without=DIR -neighbour both -rounds 5 -profile 0 -run WATCH-fan-out/ConfigMaps'
//
// An HTTP/1.1 client of our own, which needed no goroutines, saved nothing beyond noise.
package connections
