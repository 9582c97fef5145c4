// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"cmp"
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tripod-k8s/tripod/admin/etcd/split"
	"github.com/tripod-k8s/tripod/base/migration"
	"github.com/tripod-k8s/tripod/base/storage/placement"
	"github.com/tripod-k8s/tripod/services/list"
)

const (
	// goneAfter is for how many times PauseTTL a service must not have answered before its objects are given up: 30 seconds.
	goneAfter = 3
	// goneInterval is how often it is asked.
	goneInterval = time.Second
)

// checkGone returns an error unless the aggregators cannot reach the service. Any answer of it, also a refusal, says that it is there.
func (m *mover) checkGone(ctx context.Context) error {
	err := m.ask(ctx, m.checker.service.Get().AbsPath(migration.PathOf(m.Group, "")), &migration.Group{})
	switch {
	case err == nil || apierrors.IsNotFound(err):
		return fmt.Errorf("the service %s answers, so its objects can move back: run this without --abandon", m.service.name)
	case apierrors.IsForbidden(err):
		return forbidden(m.Group, err)
	// There is no such service, or none of its replicas can be reached.
	case apierrors.IsBadRequest(err), apierrors.IsServiceUnavailable(err), apierrors.IsTimeout(err):
		return nil
	}
	return fmt.Errorf("cannot see whether the service %s is gone: %w", m.service.name, err)
}

func (m *mover) goneTime() time.Duration { return goneAfter * cmp.Or(m.PauseTTL, split.PauseTTL) }

// awaitGone returns an error unless the service stays away.
func (m *mover) awaitGone(ctx context.Context) error {
	away := m.goneTime()
	m.Progress(fmt.Sprintf("looking for %v whether %s answers", away, m.service.name))
	for until := time.Now().Add(away); time.Now().Before(until); {
		if err := m.checkGone(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(goneInterval):
		}
	}
	return nil
}

// countLeft reports what extensions has: the objects from before the move to the service, or from a move back that has not ended.
func (m *mover) countLeft(ctx context.Context) error {
	for _, definition := range m.definitions {
		left, err := read(ctx, m.extensions, definition)
		if err != nil {
			return err
		}
		m.Progress(fmt.Sprintf("%s: extensions has %d objects", definition.Name, len(left)))
		m.result.Resources = append(m.result.Resources, Resource{
			Name: definition.Name, Objects: int64(len(left)), Checksum: checksum(left),
		})
	}
	return nil
}

// abandon gives the group back to extensions, with the objects that extensions has. What clients have read from the service expires, or is
// refused as too new until etcd comes there: how far the resourceVersions of the service have come is not known.
func (m *mover) abandon(ctx context.Context) error {
	if err := m.countLeft(ctx); err != nil {
		return err
	}
	if err := m.awaitGone(ctx); err != nil {
		return err
	}
	at := m.keeper.Record()
	m.paused = time.Now()
	if !at.Switching || at.Back == "" {
		now, err := m.keeper.Revision(ctx)
		if err != nil {
			return err
		}
		floor, err := m.keeper.Raise(ctx, max(now, at.Floor)+ahead)
		if err != nil {
			return err
		}
		at = placement.Record{
			Own: true, Service: m.service.name, Switching: true, Move: m.name, Back: m.name, Floor: floor, Abandoned: true,
		}
		if _, err := m.keeper.Put(ctx, at); err != nil {
			return err
		}
	}
	m.Progress("leading clients to extensions")
	if err := m.lead(ctx, list.Extensions); err != nil {
		return err
	}
	if _, err := m.keeper.Put(ctx, placement.Record{Move: at.Move, Floor: at.Floor}); err != nil {
		return err
	}
	m.result.Moved = true
	return nil
}
