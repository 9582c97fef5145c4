// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package tokens

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/tripod-k8s/tripod/base/hop/follow"
	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

// hesitation is how long a question waits for the end of the stream of a replica that did not answer it. A replica
// that stops ends both, in either order.
const hesitation = 200 * time.Millisecond

// replica is a replica of core that is followed: from the first message of its stream, to the end of the connection.
type replica struct {
	run    string
	client identityv1.IdentityClient
	// leave ends it.
	leave func(why error)
	// left is closed when it is not followed any more, and the next is searched for.
	left chan struct{}
}

// search is for a replica to follow.
type search struct {
	// done is closed when it is over. The others do not change afterwards, and one of them is set.
	done  chan struct{}
	found *replica
	err   error
}

// follower follows one replica of core after the other.
type follower struct {
	addresses func() []string
	dial      func(address string) (follow.Conn, error)
	spare     func(address string) bool
	cache     *cache
	metrics   *clientMetrics

	// search is the one that is under way, or the last. Only run changes it.
	search atomic.Pointer[search]
	// foundOnce is whether a replica was ever followed.
	foundOnce atomic.Bool
}

func (f *follower) begin() {
	f.search.Store(&search{done: make(chan struct{})})
}

// end ends the search that is under way.
func (f *follower) end(found *replica, err error) {
	s := f.search.Load()
	s.found, s.err = found, err
	close(s.done)
}

var (
	errStopped = errors.New("the aggregator stops")
	errNoRun   = errors.New("it does not say which run it is")
)

// run follows until the context ends. A search must have begun.
func (f *follower) run(ctx context.Context) {
	stream := follow.Stream{
		Name:      "identity of core",
		Addresses: f.addresses,
		Dial:      f.dial,
		Silence:   maxSilence,
		Spare:     f.spare,
		Run:       f.follow,
		Failed:    func(err error) { f.end(nil, err) },
		Retry:     f.begin,
	}
	stream.Follow(ctx)
	f.end(nil, errStopped)
}

// follow follows a replica until the stream ends.
func (f *follower) follow(ctx context.Context, session *follow.Session) error {
	client := identityv1.NewIdentityClient(session.Conn)
	stream, err := client.Watch(ctx, &identityv1.WatchRequest{})
	if err != nil {
		return err
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	if first.GetRun() == "" {
		return errNoRun
	}
	session.Alive()
	f.cache.follow(first.GetRun(), first.GetSequence())
	f.metrics.follows.Inc()
	f.foundOnce.Store(true)
	found := &replica{run: first.GetRun(), client: client, leave: session.Leave, left: make(chan struct{})}
	f.end(found, nil)
	defer func() { // also after a panic
		f.cache.unfollow()
		f.begin()
		close(found.left)
	}()
	return f.listen(stream, session)
}

// listen applies the messages of the stream until it ends.
func (f *follower) listen(stream grpc.ServerStreamingClient[identityv1.WatchResponse], session *follow.Session) error {
	for {
		message, err := stream.Recv()
		if err != nil {
			return err
		}
		session.Alive()
		f.metrics.invalidations.Add(float64(len(message.GetInvalidations())))
		ended, err := f.cache.apply(message)
		f.metrics.invalidated.Add(float64(ended))
		if err != nil {
			return err
		}
	}
}

var errSearching = errors.New("none was found yet")

// followed returns the replica that is followed. It waits for a search to end: until then there is no evidence that no replica can be
// followed.
func (f *follower) followed(ctx context.Context) (*replica, error) {
	s := f.search.Load()
	select {
	case <-s.done:
		return s.found, s.err
	case <-ctx.Done():
		return nil, errSearching
	}
}

// next returns the replica to ask when one did not answer: another when that one is lost, or the same once more.
func (f *follower) next(ctx context.Context, failed *replica) (*replica, error) {
	select {
	case <-failed.left:
	case <-time.After(hesitation):
	case <-ctx.Done():
	}
	return f.followed(ctx)
}
