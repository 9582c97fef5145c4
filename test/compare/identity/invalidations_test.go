// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"k8s.io/client-go/rest"

	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

// dial connects to the gRPC port of a replica of core with a certificate of the PKI, or with none.
func (f *fleet) dial(t testing.TB, replica, certificate string) *grpc.ClientConn {
	t.Helper()
	tlsConfig, err := rest.TLSConfigFor(f.Backend(replica, certificate))
	require.NoError(t, err)
	tlsConfig.NextProtos = nil
	connection, err := grpc.NewClient(f.Replica(replica).GRPCAddress, grpc.WithTransportCredentials(credentials.NewTLS(tlsConfig)))
	require.NoError(t, err)
	t.Cleanup(func() { closing(connection) })
	return connection
}

// follower records what a replica of core reports to aggregators.
type follower struct {
	client identityv1.IdentityClient

	mu   sync.Mutex
	news chan struct{}
	seen map[identityv1.Dependency_Kind]map[string]invalidation
	err  error
}

// invalidation is the last that came for a dependency.
type invalidation struct {
	at      time.Time
	version int64
}

// follow watches a replica until the test ends.
func (f *fleet) follow(t testing.TB, replica string) *follower {
	t.Helper()
	w := &follower{
		client: identityv1.NewIdentityClient(f.dial(t, replica, "aggregator")),
		news:   make(chan struct{}), seen: map[identityv1.Dependency_Kind]map[string]invalidation{},
	}
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := w.client.Watch(ctx, &identityv1.WatchRequest{})
	require.NoError(t, err)
	first, err := stream.Recv()
	require.NoError(t, err)
	if len(first.GetInvalidations()) > 0 {
		t.Errorf("the first message of %s has invalidations: %v", replica, first)
	}
	var following sync.WaitGroup
	following.Go(func() {
		for last := first.GetSequence(); ; {
			message, err := stream.Recv()
			if err == nil {
				err = follows(first.GetRun(), last, message)
				last = message.GetSequence()
			}
			w.note(message, err)
			if err != nil {
				return
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		following.Wait()
	})
	return w
}

// follows returns an error when a message is not the next one of a run.
func follows(run string, last uint64, message *identityv1.WatchResponse) error {
	if message.GetRun() != run {
		return fmt.Errorf("run %s in a stream of run %s", message.GetRun(), run)
	}
	for _, i := range message.GetInvalidations() {
		if i.GetSequence() != last+1 {
			return fmt.Errorf("invalidation %d after %d", i.GetSequence(), last)
		}
		last++
	}
	if message.GetSequence() != last {
		return fmt.Errorf("the message is of sequence %d, its last invalidation %d", message.GetSequence(), last)
	}
	return nil
}

func (w *follower) note(message *identityv1.WatchResponse, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
	for _, i := range message.GetInvalidations() {
		kind := i.GetDependency().GetKind()
		if w.seen[kind] == nil {
			w.seen[kind] = map[string]invalidation{}
		}
		version, _ := strconv.ParseInt(i.GetResourceVersion(), 10, 64) // 0 where it is not one of an object
		w.seen[kind][i.GetDependency().GetId()] = invalidation{time.Now(), version}
	}
	close(w.news)
	w.news = make(chan struct{})
}

// sees returns the first invalidation of a dependency that comes after a resourceVersion.
func (w *follower) sees(ctx context.Context, kind identityv1.Dependency_Kind, id string, version int64) (invalidation, error) {
	ctx, cancel := context.WithTimeout(ctx, giveUp)
	defer cancel()
	for {
		w.mu.Lock()
		i, found, news, err := w.seen[kind][id], false, w.news, w.err
		found = i.version >= version
		w.mu.Unlock()
		if found || err != nil {
			return i, err
		}
		select {
		case <-ctx.Done():
			return i, fmt.Errorf("no invalidation of %s %s with version %d, only %d: %w", kind, id, version, i.version, ctx.Err())
		case <-news:
		}
	}
}
