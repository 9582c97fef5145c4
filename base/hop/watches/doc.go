// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package watches lets the watches of an aggregator at a replica share what they receive. Otherwise the replica encrypts and writes each
// event once for each watch, and the aggregator reads and decrypts it as often.
//
// Each watch remains a request of its own, which the replica authenticates, authorizes, audits and limits as before. Only the body of its
// answer arrives elsewhere: in the session, which is one more request from the aggregator to the replica. The session carries each chunk
// once, and says for which watches it is. A chunk is what a handler writes at once, usually an event. Chunks are the same if their bytes
// are.
//
// # Negotiation
//
// All of it is in the header [envelope.WatchesHeader].
//
//   - The aggregator offers to share with the value "?". A replica that can do so answers with the same value.
//   - The aggregator then sends a POST with the value "open", in its own name. The answer 200 has the name of the session. The body of the
//     request carries credits, that of the answer frames, until either end closes it.
//   - The aggregator adds the name and a number of its choice, "name/number", to a watch. If the replica answers with the same value, the
//     body of that answer arrives in the session, and the body of the answer itself stays empty. Otherwise the answer is as it would be
//     without the header.
//
// # Frames
//
// A frame begins with a byte that says what it is. Numbers are unsigned varints (encoding/binary).
//
//	chunk    length, and as many bytes: the next chunk
//	deliver  how many chunks ago, count, and as many watches, each as the difference to the one before: they receive this chunk
//	end      watch: nothing more comes for it
//
// Credits are pairs of a watch and a number of bytes, both unsigned varints.
//
// # What it is worth
//
// Measured on 2026-11-30 on a machine with two CPUs, medians of three rounds. Without it, an event delivered takes 1.58 times the processor
// time with 1,000 watchers of ConfigMaps and 1.46 times with 5,000, and comes after 1.43 and 1.95 times as long (p50). With GOMAXPROCS=1,
// it takes 1.46 to 1.56 times the processor time. In DIR, tripod-aggregator is started with --shared-watches=false:
//
//	make bench BENCH_ARGS='-sides "" -variant shared=bin -variant apart=DIR -profile 0 -run "WATCH-[0-9]*/ConfigMaps|ONE PROCESSOR"'
//
// # Limits
//
// Both ends remember the same last chunks: at most 256, and 4 MiB. A replica may send each watch only as much as the client has taken, plus
// connections.Window (package upstream/connections), so a client that reads nothing holds up its own watch only. A protocol error closes
// the session. Then its watches end, and clients resume them. An event of more than a chunk may arrive in
// part then, as when a connection breaks.
//
// A server has 64 sessions at most. It answers 503 to the next aggregator that asks for one, whose watches then arrive as without a
// session.
package watches
