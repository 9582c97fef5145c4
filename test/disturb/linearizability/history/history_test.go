// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// timeout is much longer than any history of these tests needs.
const timeout = time.Minute

// at makes a request of client 0 for object 0 that takes from one time to another.
func at(sent, answered time.Duration, r Request) Request {
	r.Sent, r.Answered, r.Collection = sent, answered, "c"
	return r
}

func created(value int, version uint64) Request {
	return Request{Verb: Create, Value: value, Version: version}
}

func updated(from uint64, value int, version uint64) Request {
	return Request{Verb: Update, Precondition: from, Value: value, Version: version}
}

func deleted(from uint64) Request { return Request{Verb: Delete, Precondition: from} }

func got(value int, version uint64) Request {
	return Request{Verb: Get, Seen: [Size]Object{{value, version}}}
}

func listed(version uint64, objects ...Object) Request {
	r := Request{Verb: List, Version: version}
	copy(r.Seen[:], objects)
	return r
}

// but is a request with another outcome.
func but(outcome Outcome, r Request) Request {
	r.Outcome, r.Version = outcome, 0
	return r
}

func cached(r Request) Request {
	r.Cached = true
	return r
}

// of is a request for another object.
func of(object int, r Request) Request {
	if r.Verb == Get {
		r.Seen[object], r.Seen[0] = r.Seen[0], Object{}
	}
	r.Object = object
	return r
}

// histories are requests to one object, and whether one order of them explains all answers.
var histories = []struct {
	name     string
	requests []Request
	right    bool
}{
	{"nothing happened", nil, true},
	{"a life", []Request{
		at(0, 1, got(0, 0)), at(2, 3, created(1, 10)), at(4, 5, updated(10, 2, 11)), at(6, 7, got(2, 11)),
		at(8, 9, deleted(11)), at(10, 11, got(0, 0)), at(12, 13, created(3, 13)),
	}, true},
	{"a stale read", []Request{at(0, 1, created(1, 10)), at(2, 3, updated(10, 2, 11)), at(4, 5, got(1, 10))}, false},
	{"a read beside the write sees the old", []Request{at(0, 1, created(1, 10)), at(2, 5, updated(10, 2, 11)), at(3, 4, got(1, 10))}, true},
	{"a read beside the write sees the new", []Request{at(0, 1, created(1, 10)), at(2, 5, updated(10, 2, 11)), at(3, 4, got(2, 11))}, true},
	{"reads go back beside the write", []Request{
		at(0, 1, created(1, 10)), at(2, 9, updated(10, 2, 11)), at(3, 4, got(2, 11)), at(5, 6, got(1, 10)),
	}, false},
	{"a stale list", []Request{at(0, 1, created(1, 10)), at(2, 3, updated(10, 2, 11)), at(4, 5, listed(10, Object{1, 10}))}, false},
	{"a stale list that says that it is new", []Request{
		at(0, 1, created(1, 10)), at(2, 3, updated(10, 2, 11)), at(4, 5, listed(12, Object{1, 10})),
	}, false},
	{"a list of two moments", []Request{
		at(0, 1, created(1, 10)), at(0, 1, of(1, created(2, 11))), at(2, 9, updated(10, 3, 12)), at(4, 9, of(1, updated(11, 4, 13))),
		at(2, 9, listed(13, Object{1, 10}, Object{4, 13})), at(4, 4, got(3, 12)),
	}, false},
	{"a list with something newer than itself", []Request{at(0, 9, created(1, 10)), at(0, 9, listed(9, Object{1, 10}))}, false},
	{"a list forgets an object", []Request{at(0, 1, created(1, 10)), at(2, 3, listed(10))}, false},
	{"lost update", []Request{at(0, 1, created(1, 10)), at(2, 5, updated(10, 2, 11)), at(2, 5, updated(10, 3, 12))}, false},
	{"one of two updates", []Request{at(0, 1, created(1, 10)), at(2, 5, updated(10, 2, 11)), at(2, 5, but(Conflict, updated(10, 3, 0)))}, true},
	{"a conflict with nothing", []Request{at(0, 1, created(1, 10)), at(2, 3, but(Conflict, updated(10, 2, 0)))}, false},
	{"a delete that was repeated", []Request{at(0, 1, created(1, 10)), at(2, 3, but(Missing, deleted(10)))}, false},
	{"a create that was repeated", []Request{at(0, 1, but(Exists, created(1, 0))), at(2, 3, got(1, 10))}, false},
	{"created twice", []Request{at(0, 1, created(1, 10)), at(2, 3, created(2, 11))}, false},
	{"versions go back", []Request{at(0, 1, created(1, 10)), at(2, 3, of(1, created(2, 9)))}, false},
	{"an unknown update happened", []Request{at(0, 1, created(1, 10)), at(2, 3, but(Unknown, updated(10, 2, 0))), at(4, 5, got(2, 11))}, true},
	{"an unknown update did not happen", []Request{at(0, 1, created(1, 10)), at(2, 3, but(Unknown, updated(10, 2, 0))), at(4, 5, got(1, 10))}, true},
	{"an unknown update happened late", []Request{
		at(0, 1, created(1, 10)), at(2, 3, but(Unknown, updated(10, 2, 0))), at(4, 5, got(1, 10)), at(6, 7, got(2, 11)),
	}, true},
	{"an unknown update happened, and then not", []Request{
		at(0, 1, created(1, 10)), at(2, 3, but(Unknown, updated(10, 2, 0))), at(4, 5, got(2, 11)), at(6, 7, got(1, 10)),
	}, false},
	{"an unknown update happened twice", []Request{
		at(0, 1, created(1, 10)), at(2, 3, but(Unknown, updated(10, 2, 0))), at(4, 5, got(2, 11)), at(6, 7, got(2, 12)),
	}, false},
	{"an unknown update happened before it was sent", []Request{
		at(0, 1, created(1, 10)), at(2, 3, got(2, 11)), at(4, 5, but(Unknown, updated(10, 2, 0))),
	}, false},
	{"an unknown delete happened, and a new object followed", []Request{
		at(0, 1, created(1, 10)), at(2, 3, but(Unknown, deleted(10))), at(4, 5, created(2, 12)), at(6, 7, listed(12, Object{2, 12})),
	}, true},
	{"an unknown delete cannot hurt a new object", []Request{
		at(0, 1, created(1, 10)), at(2, 3, updated(10, 2, 11)), at(4, 5, but(Unknown, deleted(10))), at(6, 7, got(0, 0)),
	}, false},
	{"an unknown create is seen after another write", []Request{
		at(0, 1, but(Unknown, created(1, 0))), at(2, 3, of(1, created(2, 12))), at(4, 5, got(1, 10)), at(6, 7, of(1, updated(12, 3, 13))),
	}, true},
	{"an unknown create is seen with a version from before it", []Request{
		at(0, 1, of(1, created(2, 12))), at(2, 3, but(Unknown, created(1, 0))), at(4, 5, got(1, 10)),
	}, false},
	{"an unknown create is seen with two versions", []Request{
		at(0, 1, but(Unknown, created(1, 0))), at(2, 3, got(1, 10)), at(4, 5, got(1, 11)),
	}, false},
	{"an unknown update is overwritten by who saw it in a cache", []Request{
		at(0, 1, created(1, 10)), at(2, 3, but(Unknown, updated(10, 2, 0))), at(4, 5, cached(got(2, 11))), at(6, 7, updated(11, 3, 12)),
	}, true},
	{"a cache may be stale", []Request{at(0, 1, created(1, 10)), at(2, 3, updated(10, 2, 11)), at(4, 5, cached(got(1, 10)))}, true},
	{"an unknown create is seen by a list", []Request{
		at(0, 1, but(Unknown, created(1, 0))), at(2, 3, listed(10, Object{1, 10})), at(4, 5, updated(10, 2, 11)),
	}, true},
}

func TestAHistoryIsRightOnlyIfThereIsAnOrder(t *testing.T) {
	for _, test := range histories {
		t.Run(test.name, func(t *testing.T) {
			want := Wrong
			if test.right {
				want = Right
			}
			assert.Equal(t, want, Check(test.requests, timeout), "the verdict")
		})
	}
}

func TestCollectionsAreJudgedApart(t *testing.T) {
	one, other := at(0, 1, created(1, 10)), at(2, 3, created(2, 9))
	other.Collection = "d"
	assert.Equal(t, Right, Check([]Request{one, other}, timeout), "versions of different collections are compared")
	stale := at(4, 5, got(0, 0))
	stale.Collection = "d"
	assert.Equal(t, Wrong, Check([]Request{one, other, stale}, timeout), "a stale read in the second collection is not seen")
	path := filepath.Join(t.TempDir(), "history.html")
	require.NoError(t, Draw([]Request{one, other, stale}, timeout, path))
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		t.Errorf("nothing is drawn: %v", err)
	}
}

// simulate has clients use a store that is linearizable, with unknown outcomes among the writes, and returns what they
// saw.
func simulate(random *rand.Rand, clients, each int) []Request {
	var now state
	var requests []Request
	version, value := uint64(100), 0
	received := map[uint64]bool{}
	for i := range clients * each {
		// Requests overlap, and have their effect in the middle.
		effect := time.Duration(i) * 10
		r := Request{
			Client: i % clients, Collection: "c", Object: random.IntN(Size), Verb: Verb(random.IntN(int(List) + 1)),
			Sent: effect - time.Duration(random.IntN(10*clients/2)), Answered: effect + time.Duration(random.IntN(10*clients/2)),
		}
		object := &now.objects[r.Object]
		switch r.Verb {
		case List:
			r.Seen, r.Version = now.objects, version
		case Get:
			r.Seen[r.Object] = *object
		default:
			value++
			r.Value, r.Precondition = value, object.Version
			if random.IntN(4) == 0 || !received[r.Precondition] {
				r.Precondition = 1 // of an object that is long gone
			}
			r.Outcome, version = object.apply(r, version)
			if r.Outcome == Done && r.Verb != Delete {
				r.Version = version
			}
			if random.IntN(20) == 0 {
				r.Outcome, r.Version = Unknown, 0
			}
		}
		for _, seen := range r.Seen {
			received[seen.Version] = true
		}
		received[r.Version] = true
		requests = append(requests, r)
	}
	last := time.Duration(10 * clients * each * 2)
	return append(requests, Request{Collection: "c", Verb: List, Sent: last, Answered: last + 1, Seen: now.objects, Version: version})
}

func (o *Object) apply(r Request, version uint64) (Outcome, uint64) {
	switch {
	case o.admits(r):
		version++
		*o = Object{Value: written(r), Version: version}
		if r.Verb == Delete {
			*o = Object{}
		}
		return Done, version
	case r.Verb == Create:
		return Exists, version
	case !o.exists():
		return Missing, version
	}
	return Conflict, version
}

func TestLongHistories(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		requests := simulate(random, 6, 300)
		require.Equal(t, Right, Check(requests, timeout), "a right history is called")
		// One read among them all that is stale.
		stale, ok := staleRead(requests)
		require.True(t, ok, "there is no read to spoil")
		require.Equal(t, Wrong, Check(append(requests, stale), timeout), "%v after all is called", stale)
	}
}

// staleRead returns a read after all others that sees what a former one saw that was overwritten since.
func staleRead(requests []Request) (Request, bool) {
	var last time.Duration
	for _, r := range requests {
		last = max(last, r.Answered)
	}
	for _, r := range requests {
		if r.Verb == Get && r.Seen[r.Object].exists() {
			r.Sent, r.Answered = last+1, last+2
			return r, true
		}
	}
	return Request{}, false
}
