// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

// limits are those of a session. Both ends have the same ones.
type limits struct {
	// chunks and bytes limit what both ends remember.
	chunks, bytes int
	// chunk is the size of the largest chunk in bytes.
	chunk int
	// window is what may be on its way to a watch, and overhead what a chunk costs of it beside its bytes.
	window, overhead int
	// pending is about how much may wait to be sent: bytes of chunks, and pendingReference for each reference.
	pending int
}

// standard are the limits of all sessions but those of tests. The window is that of an answer without a session (upstream/connections).
var standard = limits{chunks: 256, bytes: 4 << 20, chunk: 64 << 10, window: 256 << 10, overhead: 64, pending: 1 << 20}

func (l *limits) cost(chunk []byte) int { return len(chunk) + l.overhead }

// chunk is a piece of the answer to one or more watches. Only the sender uses hash and group.
type chunk struct {
	bytes []byte
	hash  uint64
	// group is the number of the last group with this chunk.
	group uint64
}

// ring has the last chunks that a session has carried. Both ends add the same chunks in the same order, so both have the same ones.
type ring struct {
	limits *limits
	chunks []chunk
	// first and next are the numbers of the oldest chunk and of the next one.
	first, next uint64
	bytes       int
}

func newRing(l *limits) ring { return ring{limits: l, chunks: make([]chunk, l.chunks)} }

// at returns the chunk with a number, or nil if the ring does not have it.
func (r *ring) at(number uint64) *chunk {
	if number < r.first || number >= r.next {
		return nil
	}
	return &r.chunks[number%uint64(len(r.chunks))]
}

// add adds a chunk. Before that, it forgets the oldest ones, so that all fit. forgotten may be nil.
func (r *ring) add(c chunk, forgotten func(number uint64, c *chunk)) (number uint64) {
	for r.next-r.first == uint64(len(r.chunks)) || r.first < r.next && r.bytes+len(c.bytes) > r.limits.bytes {
		oldest := r.at(r.first)
		if forgotten != nil {
			forgotten(r.first, oldest)
		}
		r.bytes -= len(oldest.bytes)
		*oldest = chunk{}
		r.first++
	}
	r.bytes += len(c.bytes)
	r.next++
	*r.at(r.next - 1) = c
	return r.next - 1
}
