// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"math"
	"time"

	"github.com/anishathalye/porcupine"
)

// never is the answer time of requests that are still open when all is over.
const never = math.MaxInt64

// operations returns requests as the checker takes them: all of Request is its input. What is unknown is answered as
// late as can be: it takes place before the end and has an effect, or it takes place afterwards and has none. Were it
// allowed to have none before, there would be too many orders to try.
func operations(requests []Request) []porcupine.Operation {
	operations := make([]porcupine.Operation, 0, len(requests))
	traces := tracesOf(requests)
	for _, r := range requests {
		if r.Cached {
			continue
		}
		answered := int64(r.Answered)
		if r.Outcome == Unknown {
			var relevant bool
			if r.Version, answered, relevant = traces[r.Collection].end(r); !relevant {
				continue
			}
		}
		operations = append(operations, porcupine.Operation{ClientId: r.Client, Input: r, Call: int64(r.Sent), Return: answered})
	}
	for collection, t := range traces {
		r := Request{Collection: collection, Verb: end, Sent: t.last + 1, Answered: t.last + 2}
		operations = append(operations, porcupine.Operation{Input: r, Call: int64(r.Sent), Return: int64(r.Answered)})
	}
	return operations
}

// traces are what writes left in a collection.
type traces struct {
	// seen is the first read, by the time of its answer, that has a value.
	seen map[int]sight
	// written and read are when the last write of an object was answered, and when the last read of it was sent.
	written, read [Size]time.Duration
	last          time.Duration
}

type sight struct {
	version uint64
	at      time.Duration
}

func tracesOf(requests []Request) map[string]*traces {
	all := map[string]*traces{}
	for _, r := range requests {
		t := all[r.Collection]
		if t == nil {
			t = &traces{seen: map[int]sight{}}
			all[r.Collection] = t
		}
		t.last = max(t.last, r.Answered)
		for i, object := range r.Seen {
			if first, known := t.seen[object.Value]; object.exists() && (!known || r.Answered < first.at) {
				t.seen[object.Value] = sight{object.Version, r.Answered}
			}
			if r.reads(i) && !r.Cached {
				t.read[i] = max(t.read[i], r.Sent)
			}
		}
		if r.writes() {
			t.written[r.Object] = max(t.written[r.Object], r.Answered)
		}
	}
	return all
}

// end returns the version that a write of unknown outcome made, 0 if no client saw it, and until when it may have had its
// effect; and false if it had none: where no client saw its value, none knew its version and could overwrite it, and so
// it would have been there in the end.
func (t *traces) end(r Request) (version uint64, answered int64, relevant bool) {
	if r.Verb == Delete {
		return 0, never, true
	}
	if first, seen := t.seen[r.Value]; seen {
		return first.version, int64(max(first.at, r.Sent)), true
	}
	return 0, never, t.read[r.Object] <= t.written[r.Object]
}
