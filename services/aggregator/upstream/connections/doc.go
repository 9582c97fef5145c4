// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package connections sends requests to one replica over connections of its own. For each request that got no answer, it says whether the
// replica can have processed it.
//
// net/http's Transport does not say that. By itself it repeats requests that may have been processed, after a PROTOCOL_ERROR or with an
// Idempotency-Key. So this package makes and keeps connections, and sends requests with net/http's ClientConn for HTTP/1.1 and with
// x/net/http2's, which repeat nothing.
//
// It keeps two kinds of connections to a replica:
//
//   - Multiplexed ones, over HTTP/2, for watches and for writes. There can be many watches, and a server that stops says exactly which
//     requests it has not processed.
//   - Exclusive ones, over HTTP/1.1, for short reads. The aggregator can repeat a read if the server closes an idle connection at the moment
//     at which it is used. Tunnels need one, too, and so do anonymous requests: an API server ends the HTTP/2 connection of an anonymous
//     request (CVE-2023-44487).
//
// # What it is worth
//
// Measured on 2026-11-22 on a machine with two CPUs, alone and beside a neighbour that keeps caches and memory busy. The processor time is
// that of all services together.
//
//   - Over HTTP/2, a LIST of 500 ConfigMaps takes 18 % more processor time, and 42 % more beside the neighbour. A GET takes about the same. No
//     command repeats these figures: a driver that is not in the repository used each protocol in turns for 0.4 s, 6 times, with 16 clients.
//     The command below, with -run LIST-500, compares binaries that differ in this.
//
//   - If WINDOW_UPDATE frames are not delayed, an event delivered to 1,000 watchers takes 3.5 % more, and 2.2 % more beside the neighbour,
//     and 29 % more calls of read and write. DIR has binaries without the delay:
//
//     make bench BENCH_ARGS='-sides "" -variant with=bin -variant without=DIR -neighbour both -rounds 5 -profile 0 -run WATCH-fan-out/ConfigMaps'
//
//     The driver, in turns, found 3.8 % and 6.0 %.
//
// An HTTP/1.1 client of our own, which needed no goroutines, saved nothing beyond noise.
package connections
