// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package tokens

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

const (
	// patience is how long a question waits for a replica to be found.
	patience = 2 * time.Second
	// hesitation is how long a question waits for the end of the stream of a replica that did not answer it. A replica
	// that stops ends both, in either order.
	hesitation = 200 * time.Millisecond
	// steady is how long a replica must have been followed for its loss to be news, rather than one more failure.
	steady = 5 * time.Second
	// brief is how long it must have been followed for others to be tried once more before there is none.
	brief = time.Second
)

// newBackoff returns the pauses between rounds of dialling all replicas. Together the aggregators must not hinder a
// core that starts; and they wait for it.
func newBackoff() wait.Backoff {
	return wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 5, Cap: 500 * time.Millisecond}
}

// Conn is a connection to one replica of core. *grpc.ClientConn is one.
type Conn interface {
	grpc.ClientConnInterface
	io.Closer
}

// replica is a replica of core that is followed: from the first message of its stream, to the end of the connection.
type replica struct {
	address string
	run     string
	client  identityv1.IdentityClient
	// leave ends it.
	leave context.CancelCauseFunc
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
	dial      func(address string) (Conn, error)
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

var errStopped = errors.New("the aggregator stops")

// run follows until the context ends. A search must have begun.
func (f *follower) run(ctx context.Context) {
	// Aggregators that start together spread over the replicas.
	next := rand.IntN(max(len(f.addresses()), 1))
	pause := newBackoff()
	for failed := false; ; {
		err := f.round(ctx, &next)
		switch {
		case ctx.Err() != nil:
			f.end(nil, errStopped)
			return
		case err == nil:
			failed, pause = false, newBackoff()
			continue
		case !failed:
			klog.InfoS("No replica of core can be followed, trying on", "err", err)
		}
		failed = true
		f.end(nil, err)
		select {
		case <-ctx.Done():
		case <-time.After(pause.Step()):
		}
		f.begin()
	}
}

// round tries to follow each of the replicas once, beginning with that number next. It returns nil as soon as one was lost
// that had been followed for a while, and otherwise why there was none. When one is lost that was followed for a moment, the
// others are tried once more: they may have come up meanwhile.
func (f *follower) round(ctx context.Context, next *int) error {
	addresses := f.addresses()
	if len(addresses) == 0 {
		return errNone
	}
	var failures []error
	for again := false; len(failures) < len(addresses); {
		*next %= len(addresses)
		address := addresses[*next]
		*next++
		followed, err := f.follow(ctx, address)
		if followed > steady {
			return nil
		}
		// One that is lost again and again at once does not count: there must be pauses.
		if followed > brief || followed > 0 && !again {
			again, failures = true, nil
		}
		failures = append(failures, fmt.Errorf("%s: %w", address, err))
	}
	return utilerrors.NewAggregate(failures)
}

var (
	errNone   = errors.New("no replica of core is known")
	errSilent = errors.New("it was silent for too long")
	errNoRun  = errors.New("it does not say which run it is")
)

// follow follows the replica at the address until it is lost, and returns for how long.
func (f *follower) follow(ctx context.Context, address string) (time.Duration, error) {
	conn, err := f.dial(address)
	if err != nil {
		return 0, err
	}
	defer conn.Close() //nolint:errcheck // there is nothing left to be lost
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	silence := time.AfterFunc(maxSilence, func() { leave(errSilent) })
	defer silence.Stop()

	client := identityv1.NewIdentityClient(conn)
	stream, err := client.Watch(ctx, &identityv1.WatchRequest{})
	if err != nil {
		return 0, reason(ctx, err)
	}
	first, err := stream.Recv()
	if err != nil {
		return 0, reason(ctx, err)
	}
	if first.GetRun() == "" {
		return 0, errNoRun
	}

	r := &replica{address: address, run: first.GetRun(), client: client, leave: leave, left: make(chan struct{})}
	since := time.Now()
	f.found(r, first.GetSequence())
	err = f.listen(ctx, stream, silence)
	f.lost(r, err)
	return time.Since(since), err
}

// reason returns why a call on the stream failed.
func reason(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if errors.Is(err, io.EOF) {
		return errors.New("it ended the stream")
	}
	return errors.New(status.Convert(err).Message())
}

func (f *follower) found(r *replica, sequence uint64) {
	klog.InfoS("Following core", "replica", r.address, "run", r.run)
	f.cache.follow(r.run, sequence)
	f.metrics.follows.Inc()
	f.foundOnce.Store(true)
	f.end(r, nil)
}

func (f *follower) lost(r *replica, err error) {
	klog.InfoS("Not following core any more", "replica", r.address, "run", r.run, "reason", err)
	f.cache.unfollow()
	f.begin()
	close(r.left)
}

// listen takes what the stream tells until it ends.
func (f *follower) listen(ctx context.Context, stream grpc.ServerStreamingClient[identityv1.WatchResponse], silence *time.Timer) error {
	for {
		message, err := stream.Recv()
		if err != nil {
			return reason(ctx, err)
		}
		silence.Reset(maxSilence)
		f.metrics.invalidations.Add(float64(len(message.GetInvalidations())))
		ended, err := f.cache.hear(message)
		f.metrics.invalidated.Add(float64(ended))
		if err != nil {
			return err
		}
	}
}

var errSearching = errors.New("none was found yet")

// followed returns the replica that is followed. It waits a while for a search to end.
func (f *follower) followed(ctx context.Context) (*replica, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
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
