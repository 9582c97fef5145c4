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

// operations returns requests as the checker wants them: all of Request is its input. What is unknown is answered as
// late as can be: it takes place before the end and has an effect, or it takes place afterwards and has none. Were it
// allowed to have none before, there would be too many orders to try.
func operations(requests []Request) []porcupine.Operation {
	operations := make([]porcupine.Operation, 0, len(requests))
	traces := tracesOf(requests)
	for _, r := range requests {
		answered := int64(r.Answered)
		if r.Outcome == Unknown {
			var relevant bool
			if answered, relevant = traces[r.Collection].end(r); !relevant {
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
	// seen is when the answer to the first read came that has a value.
	seen map[int]time.Duration
	// written and read are when the last write of an object was answered, and when the last read of it was sent.
	written, read [Size]time.Duration
	last          time.Duration
}

func tracesOf(requests []Request) map[string]*traces {
	all := map[string]*traces{}
	for _, r := range requests {
		t := all[r.Collection]
		if t == nil {
			t = &traces{seen: map[int]time.Duration{}}
			all[r.Collection] = t
		}
		t.last = max(t.last, r.Answered)
		for i, object := range r.Seen {
			if at, known := t.seen[object.Value]; object.exists() && (!known || r.Answered < at) {
				t.seen[object.Value] = r.Answered
			}
			if r.Verb == List || r.Verb == Get && r.Object == i {
				t.read[i] = max(t.read[i], r.Sent)
			}
		}
		if r.Verb < Get {
			t.written[r.Object] = max(t.written[r.Object], r.Answered)
		}
	}
	return all
}

// end returns until when a write of unknown outcome may have its effect, and false if it had none: where nobody saw its
// value, nobody knew its version and could overwrite it, and so it would have been there in the end.
func (t *traces) end(r Request) (int64, bool) {
	if r.Verb == Delete {
		return never, true
	}
	if at, seen := t.seen[r.Value]; seen {
		return int64(max(at, r.Sent)), true
	}
	return never, t.read[r.Object] <= t.written[r.Object]
}
