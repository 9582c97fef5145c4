// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/apiservice/internal/revisions"
	"github.com/tripod-k8s/tripod/apiservice/storages"
)

// pollTimeout ends a poll that has no answer, so that the next one can have one.
const pollTimeout = time.Minute

// poller keeps the objects that a function returned last, for watches.
type poller[T runtime.Object] struct {
	resource ReadOnly[T]
	prefix   string
	store    *revisions.Store
	// has reports whether a poll has succeeded.
	has  atomic.Bool
	stop context.CancelFunc
	done chan struct{}
}

// open is a storages.Open.
func (p *poller[T]) open(r storages.Resource) (storage.Interface, func(), error) {
	store, err := revisions.New(r, revisions.Options{})
	if err != nil {
		return nil, nil, err
	}
	p.store, p.prefix = store, r.Prefix
	return &known{store, &p.has}, p.close, nil
}

// known is a store that is not ready before a poll has succeeded.
type known struct {
	*revisions.Store
	has *atomic.Bool
}

func (k *known) ReadinessCheck() error {
	if !k.has.Load() {
		return apierrors.NewServiceUnavailable("the objects are not known yet: no poll has succeeded since the service started")
	}
	return k.Store.ReadinessCheck()
}

// start polls until the service ends.
func (p *poller[T]) start() {
	var ctx context.Context
	ctx, p.stop = context.WithCancel(context.Background()) //nolint:gosec // close calls it
	p.done = make(chan struct{})
	go func() {
		defer close(p.done)
		ticker := time.NewTicker(p.resource.PollInterval)
		defer ticker.Stop()
		for {
			if err := p.poll(ctx); err != nil && ctx.Err() == nil {
				klog.ErrorS(err, "A poll has failed. Clients get the objects of the last one that succeeded", "resource", p.resource.Name)
			}
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}()
}

func (p *poller[T]) close() {
	if p.stop != nil {
		p.stop()
		<-p.done
	}
	p.store.Close()
}

// poll replaces the objects by those of now. A panic of the author's function is an error of this poll.
func (p *poller[T]) poll(ctx context.Context) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	all, err := p.resource.checked(ctx, "")
	if err != nil {
		return err
	}
	byKey := map[string]runtime.Object{}
	for _, object := range all {
		m, err := meta.Accessor(object)
		if err != nil {
			return err
		}
		key := p.prefix + m.GetName()
		if !p.resource.ClusterScoped {
			key = p.prefix + m.GetNamespace() + "/" + m.GetName()
		}
		if byKey[key] != nil {
			return fmt.Errorf("two objects have the name %s", key)
		}
		byKey[key] = object.DeepCopyObject()
	}
	if err := p.store.Replace(byKey); err != nil {
		return err
	}
	p.has.Store(true)
	return nil
}
