// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package linearizability

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/disturb/linearizability/history"
	"github.com/tripod-k8s/tripod/test/framework"
)

const (
	// roundLength is how long there is trouble at least.
	roundLength = 40 * time.Second
	// giveUp ends a wait that would never end; it says nothing about how fast anything is.
	giveUp = 2 * time.Minute
	// workersEach and watchersEach is how many a collection has.
	workersEach, watchersEach = 6, 2
)

// round is some clients, the trouble that they have, and what they saw.
type round struct {
	*cluster
	random  *rand.Rand
	parties []*party
}

// party is the clients of a collection.
type party struct {
	collection collection
	workers    []*worker
	watchers   []*watcher
}

func newRound(t testing.TB, c *cluster, random *rand.Rand) *round {
	t.Helper()
	r := &round{cluster: c, random: random}
	began := time.Now()
	for _, resource := range resources {
		p := &party{collection: collection{resource, framework.CreateNamespace(t, c.aggregators[0])}}
		values := &atomic.Int64{}
		for i := range workersEach {
			p.workers = append(p.workers, &worker{
				client: r.client(t), collection: p.collection, values: values, began: began, number: i, of: workersEach, failed: map[string]int{},
			})
		}
		for i := range watchersEach {
			w := &watcher{client: r.client(t), collection: p.collection, bookmarks: i%2 == 0}
			code, list, err := w.send(t.Context(), http.MethodGet, p.collection.path(), nil)
			if err != nil || code != http.StatusOK {
				t.Fatalf("list of %s: %d %s %v", p.collection.path(), code, list.Message, err)
			}
			w.at = list.Metadata.ResourceVersion
			p.watchers = append(p.watchers, w)
		}
		r.parties = append(r.parties, p)
	}
	return r
}

// client returns a client with dice of its own.
func (r *round) client(t testing.TB) *client {
	t.Helper()
	random := rand.New(rand.NewPCG(r.random.Uint64(), r.random.Uint64()))
	return newClient(t, random, r.aggregators)
}

// run has the clients work while there is trouble, and judges what they saw.
func (r *round) run(t *testing.T) {
	watching, stopWatching := context.WithCancel(t.Context())
	working, stopWorking := context.WithCancel(t.Context())
	var watchers, workers sync.WaitGroup
	defer func() {
		stopWorking()
		stopWatching()
		workers.Wait()
		watchers.Wait()
	}()
	for _, p := range r.parties {
		for _, w := range p.watchers {
			watchers.Go(func() { w.run(watching) })
		}
		for _, w := range p.workers {
			workers.Go(func() { w.run(working) })
		}
	}
	require.NoError(t, r.trouble(t))
	stopWorking()
	workers.Wait()
	for _, p := range r.parties {
		p.end(t)
	}
	tooLate := time.AfterFunc(giveUp, stopWatching)
	defer tooLate.Stop()
	watchers.Wait()
	for _, p := range r.parties {
		r.judge(t, p)
	}
}

// trouble has all services have trouble at once, for the length of a round. In the end all replicas are ready.
func (r *round) trouble(t *testing.T) error {
	ctx, cancel := context.WithTimeout(t.Context(), roundLength+giveUp)
	defer cancel()
	over := make(chan struct{})
	time.AfterFunc(roundLength, func() { close(over) })
	errs := make([]error, len(services))
	var making sync.WaitGroup
	for i, service := range services {
		random := rand.New(rand.NewPCG(r.random.Uint64(), r.random.Uint64()))
		making.Go(func() { errs[i] = makeTrouble(ctx, random, over, r.replicas[service], t.Logf) })
	}
	making.Wait()
	return errors.Join(append(errs, r.waitReady(ctx))...)
}

// end has one worker list everything once more, and write the last object.
func (p *party) end(t testing.TB) {
	t.Helper()
	w := p.workers[0]
	framework.Eventually(t, "everything is listed", func(ctx context.Context) error {
		if !w.do(ctx, history.Request{Verb: history.List}) {
			return errors.New("it was not")
		}
		return nil
	})
	framework.Eventually(t, "the last object is created", func(ctx context.Context) error {
		code, status, err := w.send(ctx, http.MethodPost, p.collection.path(), p.collection.body(lastName, 1, 0))
		if err == nil && code != http.StatusCreated && status.Reason != "AlreadyExists" {
			err = errors.New(status.Message)
		}
		return err
	})
}
