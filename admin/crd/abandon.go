// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"context"
	"fmt"
	"time"

	"github.com/tripod-k8s/tripod/internal/storage/placement"
	"github.com/tripod-k8s/tripod/services/list"
)

// checkGone returns an error if the service answers: then its objects can move back.
func (m *mover) checkGone(ctx context.Context) error {
	if _, err := m.served(ctx); err == nil {
		return fmt.Errorf("the service %s answers, so its objects can move back: run this without --abandon", m.service.name)
	} else if ctx.Err() != nil {
		return ctx.Err()
	}
	return nil
}

// countLeft reports what extensions has from before the group moved to the service.
func (m *mover) countLeft(ctx context.Context) error {
	for _, definition := range m.definitions {
		left, err := read(ctx, m.extensions, definition)
		if err != nil {
			return err
		}
		m.Progress(fmt.Sprintf("%s: extensions has %d objects from before the move to %s", definition.Name, len(left), m.service.name))
		m.result.Resources = append(m.result.Resources, Resource{
			Name: definition.Name, Objects: int64(len(left)), Checksum: checksum(left),
		})
	}
	return nil
}

// abandon gives the group back to extensions, with the objects that extensions has. What clients have read from the service expires, or is
// refused as too new: how far its resourceVersions have come is not known.
func (m *mover) abandon(ctx context.Context) error {
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
		at = placement.Record{Own: true, Service: m.service.name, Switching: true, Move: m.name, Back: m.name, Floor: floor}
		if _, err := m.keeper.Put(ctx, at); err != nil {
			return err
		}
	}
	if err := m.countLeft(ctx); err != nil {
		return err
	}
	m.Progress("leading clients to extensions")
	if err := m.lead(ctx, list.Extensions); err != nil {
		return err
	}
	if err := m.prune(ctx); err != nil {
		return err
	}
	if _, err := m.keeper.Put(ctx, placement.Record{Move: at.Move, Floor: at.Floor}); err != nil {
		return err
	}
	m.result.Moved = true
	return nil
}
