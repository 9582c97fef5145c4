// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package watchresume

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/metadata"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/klog/v2"
)

const (
	// concurrentResumes bounds how many watches are read from etcd at a time. Others wait for their turn, which takes about 0.1 s, the
	// period at which etcd serves watches that begin in the past.
	concurrentResumes = 64
	// maxWait bounds the wait for a turn, and maxTurn the turn. If one ends too late, the client has to list again.
	maxWait = 30 * time.Second
	maxTurn = 10 * time.Second
	// maxPause bounds how long a turn waits for its client in sum. A slower client gets on in several turns.
	maxPause = 500 * time.Millisecond
	// progressPeriod is how often etcd is asked how far a watch has come. It does not answer while one is behind.
	progressPeriod = 50 * time.Millisecond
	// maxHandovers bounds how often a cache may be filled again just when a watch comes to it.
	maxHandovers = 3
)

var (
	errForgotten  = errors.New("etcd has forgotten what happened since")
	errUnreadable = errors.New("etcd has an event that cannot be read")
)

var (
	resuming = make(chan struct{}, concurrentResumes)
	streams  atomic.Uint64
)

// source is what a watch is resumed from.
type source struct {
	// history serves watches from etcd, cache from memory.
	history, cache storage.Interface
	key            string
	opts           storage.ListOptions
	// refusal is the event that a client is sent which has to list again.
	refusal watch.Event
}

// resumed is a watch that is served from etcd first, and then from the cache.
type resumed struct {
	source
	events chan watch.Event
	cancel context.CancelFunc
}

func resume(ctx context.Context, from source) watch.Interface {
	ctx, cancel := context.WithCancel(ctx)
	w := &resumed{source: from, events: make(chan watch.Event), cancel: cancel}
	go w.run(ctx)
	return w
}

// Stop implements watch.Interface.
func (w *resumed) Stop() {
	w.cancel()
}

// ResultChan implements watch.Interface.
func (w *resumed) ResultChan() <-chan watch.Event {
	return w.events
}

func (w *resumed) run(ctx context.Context) {
	defer close(w.events)
	defer w.cancel()
	for range maxHandovers {
		watching := w.handOver(ctx)
		if watching == nil {
			return
		}
		refusal := refusalOf(watching)
		if refusal == nil {
			w.forward(ctx, watching)
			return
		}
		if !isExpired(refusal) {
			w.send(ctx, *refusal)
			return
		}
	}
	w.send(ctx, w.refusal)
}

// handOver serves the watch from etcd until the cache can, and returns the watch of the cache. It returns nil when the watch has
// ended: with the event that makes the client list again, when that is better or all it can do, or else without a word, so that
// the client resumes where it is.
func (w *resumed) handOver(ctx context.Context) watch.Interface {
	for caughtUp := false; !caughtUp; {
		next, err := w.takeTurn(ctx)
		switch {
		case errors.Is(err, errForgotten) || errors.Is(err, errUnreadable) || errors.Is(err, context.DeadlineExceeded):
			w.send(ctx, w.refusal)
			return nil
		case err != nil:
			klog.V(2).InfoS("A watch was not continued from etcd", "key", w.key, "resourceVersion", w.opts.ResourceVersion, "reason", err.Error())
			return nil
		}
		// The client may take its time here, where it keeps no other from having a turn.
		for _, event := range next.unsent {
			if !w.send(ctx, event) {
				return nil
			}
		}
		w.opts.ResourceVersion, caughtUp = strconv.FormatUint(next.reached, 10), next.caughtUp
	}
	watching, err := w.cache.Watch(ctx, w.key, w.opts)
	if err != nil {
		return nil
	}
	return watching
}

// takeTurn waits for a turn to read from etcd, and takes it.
func (w *resumed) takeTurn(ctx context.Context) (turn, error) {
	waiting, stop := context.WithTimeout(ctx, maxWait)
	defer stop()
	select {
	case resuming <- struct{}{}:
		defer func() { <-resuming }()
	case <-waiting.Done():
		return turn{}, waiting.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, maxTurn)
	defer cancel()
	return w.replay(ctx)
}

// turn is how far a watch has come in one turn.
type turn struct {
	// unsent are events that the client did not take in time. They have the same resourceVersion.
	unsent []watch.Event
	// reached is the resourceVersion of the watch once they are sent.
	reached uint64
	// caughtUp is set if that is as late as the beginning of the turn.
	caughtUp bool
	// timeLeft is how much longer the turn may wait for its client.
	timeLeft time.Duration
}

// replay sends what happened since the resourceVersion of the watch, until it is as late as when this was called or the client is too slow.
// The error is errForgotten when etcd has forgotten what happened.
func (w *resumed) replay(ctx context.Context) (turn, error) {
	now, err := w.history.GetCurrentResourceVersion(ctx)
	if err != nil {
		return turn{}, err
	}
	// The watch has a stream of its own, because etcd reports progress by stream.
	stream := "history-" + strconv.FormatUint(streams.Add(1), 10)
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(ctx, "source", stream))
	defer cancel()
	opts := w.opts
	opts.ProgressNotify = true
	watching, err := w.history.Watch(ctx, w.key, opts)
	if err != nil {
		return turn{}, err
	}
	defer watching.Stop()

	ask := time.NewTicker(progressPeriod)
	defer ask.Stop()
	for t := (turn{timeLeft: maxPause}); ; {
		select {
		case event, ok := <-watching.ResultChan():
			if !ok {
				return turn{}, errors.New("etcd ended the watch")
			}
			if over, err := w.receive(ctx, &t, event, now); over || err != nil {
				return t, err
			}
		case <-ask.C:
			if err := w.history.RequestWatchProgress(ctx); err != nil {
				return turn{}, err
			}
		case <-ctx.Done():
			return turn{}, ctx.Err()
		}
	}
}

// receive takes an event from etcd. It reports whether the turn is over.
func (w *resumed) receive(ctx context.Context, t *turn, event watch.Event, now uint64) (over bool, err error) {
	if isExpired(&event) {
		return false, errForgotten
	}
	if event.Type == watch.Error {
		// A watch that only ended would meet the same event again and again.
		return false, fmt.Errorf("%w: %w", errUnreadable, apierrors.FromObject(event.Object))
	}
	at, err := w.history.Versioner().ObjectResourceVersion(event.Object)
	switch {
	case err != nil:
		return false, fmt.Errorf("%w: %w", errUnreadable, err)
	case event.Type == watch.Bookmark:
		// All events up to this resourceVersion were received.
		over = at >= now || len(t.unsent) > 0
		if over {
			t.reached, t.caughtUp = at, at >= now
		}
		return over, nil
	case len(t.unsent) == 0:
		if !w.offer(ctx, t, event) {
			t.unsent = []watch.Event{event}
		}
	case at == t.reached:
		// A watch cannot go on between two events with the same resourceVersion.
		t.unsent = append(t.unsent, event)
	default:
		return true, nil
	}
	t.reached = at
	return false, ctx.Err()
}

// offer hands an event to the client, and returns false if the turn cannot wait for it any longer.
func (w *resumed) offer(ctx context.Context, t *turn, event watch.Event) bool {
	select {
	case w.events <- event:
		return true
	default:
	}
	offered := time.Now()
	defer func() { t.timeLeft -= time.Since(offered) }()
	timer := time.NewTimer(t.timeLeft)
	defer timer.Stop()
	select {
	case w.events <- event:
		return true
	case <-timer.C:
		return false
	case <-ctx.Done():
		return false
	}
}

// forward sends what the watch of the cache yields until either ends.
func (w *resumed) forward(ctx context.Context, watching watch.Interface) {
	defer watching.Stop()
	for {
		select {
		case event, ok := <-watching.ResultChan():
			if !ok || !w.send(ctx, event) {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// send hands an event to the client, and returns false when it is gone.
func (w *resumed) send(ctx context.Context, event watch.Event) bool {
	select {
	case w.events <- event:
		return true
	case <-ctx.Done():
		return false
	}
}
