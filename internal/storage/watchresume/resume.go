// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package watchresume

import (
	"context"
	"errors"
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
	// concurrentResumes bounds how many watches are served from etcd at a time; others wait. One takes about 0.1 s, the period at
	// which etcd serves watches that begin in the past.
	concurrentResumes = 64
	// maxResume bounds how long one is, waiting included. Whoever has not caught up then had better list again.
	maxResume = 10 * time.Second
	// progressPeriod is how often etcd is asked how far a watch has come. It does not answer while one is behind.
	progressPeriod = 50 * time.Millisecond
	// maxHandovers bounds how often a cache may be filled again just when a watch comes to it.
	maxHandovers = 3
)

var errForgotten = errors.New("etcd has forgotten what happened since")

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
	bounded, cancel := context.WithTimeout(ctx, maxResume)
	defer cancel()
	select {
	case resuming <- struct{}{}:
		defer func() { <-resuming }()
	case <-bounded.Done():
		w.send(ctx, w.refusal)
		return nil
	}
	reached, err := w.replay(bounded)
	switch {
	case errors.Is(err, errForgotten) || errors.Is(err, context.DeadlineExceeded):
		w.send(ctx, w.refusal)
		return nil
	case err != nil:
		klog.V(2).InfoS("A watch was not continued from etcd", "key", w.key, "resourceVersion", w.opts.ResourceVersion, "reason", err.Error())
		return nil
	}
	w.opts.ResourceVersion = reached
	watching, err := w.cache.Watch(ctx, w.key, w.opts)
	if err != nil {
		return nil
	}
	return watching
}

// replay sends what happened since the resourceVersion of the watch, until it is as late as when this was called, and returns the
// resourceVersion that it has come to. The error is errForgotten when etcd has forgotten what happened.
func (w *resumed) replay(ctx context.Context) (reached string, err error) {
	now, err := w.history.GetCurrentResourceVersion(ctx)
	if err != nil {
		return "", err
	}
	// The watch has a stream of its own, because etcd tells of progress by stream.
	stream := "history-" + strconv.FormatUint(streams.Add(1), 10)
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(ctx, "source", stream))
	defer cancel()
	opts := w.opts
	opts.ProgressNotify = true
	watching, err := w.history.Watch(ctx, w.key, opts)
	if err != nil {
		return "", err
	}
	defer watching.Stop()

	ask := time.NewTicker(progressPeriod)
	defer ask.Stop()
	for {
		select {
		case event, ok := <-watching.ResultChan():
			switch {
			case !ok:
				return "", errors.New("etcd ended the watch")
			case isExpired(&event):
				return "", errForgotten
			case event.Type == watch.Error:
				return "", apierrors.FromObject(event.Object)
			case event.Type == watch.Bookmark:
				at, err := w.history.Versioner().ObjectResourceVersion(event.Object)
				if err != nil {
					return "", err
				}
				// Anything before this has been sent; of an event, others may have the same revision.
				if at >= now {
					return strconv.FormatUint(at, 10), nil
				}
			case !w.send(ctx, event):
				return "", ctx.Err()
			}
		case <-ask.C:
			if err := w.history.RequestWatchProgress(ctx); err != nil {
				return "", err
			}
		case <-ctx.Done():
			return "", ctx.Err()
		}
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
