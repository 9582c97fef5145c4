// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAWatchTellsOfEveryWriteOnce(t *testing.T) {
	requests := []Request{
		created(1, 10), of(1, created(2, 11)), updated(10, 3, 12), but(Conflict, updated(10, 4, 0)),
		but(Unknown, updated(12, 5, 0)), but(Unknown, deleted(12)), but(Unknown, deleted(12)), deleted(12), but(Missing, deleted(12)), got(0, 0),
		created(6, 16), but(Unknown, updated(16, 7, 0)),
	}
	added, other, modified := Event{Added, 0, 1, 10}, Event{Added, 1, 2, 11}, Event{Modified, 0, 3, 12}
	bookmark, removed, again, maybe := Event{Bookmark, 0, 0, 12}, Event{Deleted, 0, 3, 14}, Event{Added, 0, 6, 16}, Event{Modified, 0, 7, 18}
	for _, test := range []struct {
		name   string
		events []Event
		right  bool
	}{
		{"all", []Event{added, other, modified, bookmark, removed, again}, true},
		{"and what was not known", []Event{added, other, modified, removed, again, maybe}, true},
		{"a bookmark at the end", []Event{added, other, modified, removed, again, {Bookmark, 0, 0, 20}}, true},
		{"a create is missing", []Event{added, modified, removed, again}, false},
		{"an update is missing", []Event{added, other, removed, again}, false},
		{"a delete is missing", []Event{added, other, modified, again}, false},
		{"a delete and what follows are missing", []Event{added, other, modified}, false},
		{"the last is missing", []Event{added, other, modified, removed}, false},
		{"one twice", []Event{added, other, modified, modified, removed, again}, false},
		{"one again with a new version", []Event{added, other, modified, {Modified, 0, 3, 13}, removed, again}, false},
		{"an old one later", []Event{added, other, modified, removed, added, again}, false},
		{"out of order", []Event{other, added, modified, removed, again}, false},
		{"a bookmark from before", []Event{added, other, modified, removed, bookmark, again}, false},
		{"a bookmark from the future", []Event{added, other, {Bookmark, 0, 0, 13}, modified, removed, again}, false},
		{"another value", []Event{{Added, 0, 2, 10}, other, modified, removed, again}, false},
		{"another version", []Event{{Added, 0, 1, 9}, other, modified, removed, again}, false},
		{"another object", []Event{{Added, 2, 1, 10}, other, modified, removed, again}, false},
		{"an added that was an update", []Event{added, other, {Added, 0, 3, 12}, removed, again}, false},
		{"a deleted with another value", []Event{added, other, modified, {Deleted, 0, 1, 14}, again}, false},
		{"what was refused", []Event{added, other, {Modified, 0, 4, 12}, removed, again}, false},
		{"what was not known, with the wrong precondition", []Event{added, other, modified, removed, again, {Modified, 0, 5, 18}}, false},
		{"nobody wrote it", []Event{added, other, modified, removed, again, {Added, 3, 9, 20}}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := Follow(requests, test.events); (err == nil) != test.right {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestACacheHasWhatOnceWas(t *testing.T) {
	timeline, err := Follow(
		[]Request{created(1, 10), of(1, created(2, 11)), updated(10, 3, 12), deleted(12)},
		[]Event{{Added, 0, 1, 10}, {Added, 1, 2, 11}, {Modified, 0, 3, 12}, {Deleted, 0, 3, 14}},
	)
	require.NoError(t, err)
	from := func(version uint64, r Request) Request {
		r.Cached, r.NotBefore = true, version
		return r
	}
	one, other, changed := Object{1, 10}, Object{2, 11}, Object{3, 12}
	for _, test := range []struct {
		name    string
		request Request
		right   bool
	}{
		{"anything", from(0, got(1, 10)), true},
		{"before there was anything", from(0, got(0, 0)), true},
		{"as it was then", from(11, got(1, 10)), true},
		{"newer", from(10, got(3, 12)), true},
		{"newer, which is none", from(10, got(0, 0)), true},
		{"none of what is gone", from(20, got(0, 0)), true},
		{"older", from(12, got(1, 10)), false},
		{"what is gone", from(14, got(3, 12)), false},
		{"none of what there is", from(12, of(1, got(0, 0))), false},
		{"never", from(0, got(1, 11)), false},
		{"a list", from(11, listed(11, one, other)), true},
		{"a list of later", from(11, listed(13, changed, other)), true},
		{"an old list", from(12, listed(11, one, other)), false},
		{"an empty list", from(0, listed(9)), true},
		{"a list that forgets one", from(0, listed(11, one)), false},
		{"a list of two moments", from(0, listed(12, one, other)), false},
		{"not from a cache", listed(99), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := timeline.Check([]Request{test.request}); (err == nil) != test.right {
				t.Errorf("error %v", err)
			}
		})
	}
}
