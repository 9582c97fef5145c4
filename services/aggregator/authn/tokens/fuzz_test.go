// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package tokens

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"google.golang.org/protobuf/proto"

	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

// FuzzAnswer puts arbitrary answers of core into a cache. Each answer that the cache returns must be good and not expired, and its revocation must be
// reported.
func FuzzAnswer(f *testing.F) {
	seed := func(message *identityv1.AuthenticateResponse) {
		data, err := proto.Marshal(message)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, uint64(5))
	}
	good := is("jane", "1")
	good.Run, good.Sequence = "run", 5
	seed(good)
	seed(&identityv1.AuthenticateResponse{Run: "run", Error: "bad"})
	f.Fuzz(func(t *testing.T, data []byte, sequence uint64) {
		message := &identityv1.AuthenticateResponse{}
		if proto.Unmarshal(data, message) != nil {
			return
		}
		c := newCache(time.Minute)
		c.follow("run", sequence)
		asked := time.Now()
		a := newAnswer(message, asked)
		assert.Equal(t, message.GetUser() != nil, a.good(), "good is %v for %v", a.good(), message)
		response, ok, err := a.give(t.Context())
		if ok != a.good() || ok != (response != nil) || (ok && err != nil) {
			t.Errorf("given are %v, %v, %v", response, ok, err)
		}
		c.put(key{}, a)
		kept, _ := c.get(key{})
		if kept == nil {
			return
		}
		if !kept.good() || message.GetRun() != "run" || message.GetSequence() < sequence {
			t.Errorf("kept is %v", message)
		}
		if limit := message.GetValidFor(); limit != nil && time.Since(asked) > limit.AsDuration() {
			t.Errorf("kept beyond its end is %v", message)
		}
		if time.Since(asked) > message.GetFreshFor().AsDuration() {
			t.Errorf("kept for longer than it is fresh is %v", message)
		}
		if dependencies := message.GetDependencies(); len(dependencies) > 0 {
			news := &identityv1.Invalidation{Sequence: sequence + 1, Dependency: dependencies[0]}
			_, err := c.apply(&identityv1.WatchResponse{Run: "run", Sequence: sequence + 1, Invalidations: []*identityv1.Invalidation{news}})
			if kept, _ := c.get(key{}); kept != nil && message.GetSequence() == sequence {
				t.Errorf("kept after %v (%v) is %v", news, err, message)
			}
		}
	})
}

// FuzzNews gives a cache any message that core may send. Either the message has all that followed the last one, or the cache refuses it.
func FuzzNews(f *testing.F) {
	for _, message := range []*identityv1.WatchResponse{
		{Run: "run", Sequence: 5},
		{Run: "run", Sequence: 6, Invalidations: []*identityv1.Invalidation{{Sequence: 6, Dependency: serviceAccount("1")}}},
	} {
		data, err := proto.Marshal(message)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, uint64(5))
	}
	f.Fuzz(func(t *testing.T, data []byte, sequence uint64) {
		message := &identityv1.WatchResponse{}
		if proto.Unmarshal(data, message) != nil {
			return
		}
		c := newCache(time.Minute)
		c.follow("run", sequence)
		if _, err := c.apply(message); err != nil {
			return
		}
		if message.GetRun() != "run" || message.GetSequence() != sequence+uint64(len(message.GetInvalidations())) {
			t.Errorf("after %d this is taken: %v", sequence, message)
		}
	})
}
