// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package connections sends requests to one replica, over connections of its own. If a request gets no answer, the error says whether the
// replica can have processed the request.
//
// net/http's Transport does not say that. After a PROTOCOL_ERROR, or with an Idempotency-Key, it retries on its own requests that may have
// been processed. So this package makes and keeps the connections. It sends requests with net/http's ClientConn for HTTP/1.1, and with that
// of x/net/http2 for HTTP/2. Neither of them retries.
//
// A replica has two kinds of connections:
//
//   - Multiplexed ones use HTTP/2 and serve watches and writes. One connection can have many watches, and a server that stops says exactly
//     which requests it has not processed.
//   - Exclusive ones use HTTP/1.1 and serve short reads. The aggregator can retry a read if the server closes an idle connection just when
//     the read uses it. Tunnels need an exclusive connection too. So do anonymous requests, because an API server closes the HTTP/2
//     connection of an anonymous request (CVE-2023-44487).
//
// Some requests share multiplexed connections only with their like, because a server may close the connection for one of them: those with
// large headers, and anonymous ones if the replica speaks only HTTP/2. No client's request uses the connections for Alone.
//
// # What it is worth
//
// Measured on 2026-11-22 on a machine with two CPUs, alone and beside a neighbour that keeps caches and memory busy. Processor time is that
// of all services together.
//
//   - Over HTTP/2, a LIST of 500 ConfigMaps takes 18 % more processor time, and 42 % more beside the neighbour. A GET takes about the same.
//     No command repeats these figures: a driver that is not in the repository used each protocol in turns for 0.4 s, 6 times, with 16
//     clients. The command below, with -run LIST-500, compares binaries that differ in this.
//
//   - Without the delay of WINDOW_UPDATE frames, an event delivered to 1,000 watchers takes 3.5 % more processor time, and 2.2 % more
//     beside the neighbour. It takes 29 % more calls of read and write. DIR has binaries without the delay:
//
//     make bench BENCH_ARGS='-sides "" -variant with=bin -variant without=DIR -neighbour both -rounds 5 -profile 0 -run \
//     WATCH-fan-out/ConfigMaps'
//
//     The driver, in turns, found 3.8 % and 6.0 %.
//
// An HTTP/1.1 client of our own, without goroutines, saved nothing beyond noise.
package connections
