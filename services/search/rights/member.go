// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/services/search/store"
)

const (
	// maxBytes and MaxObjects bound the RBAC objects of a cluster. They decide nothing if they are more.
	maxBytes = 64 << 20
	// MaxObjects is how many RBAC objects of a cluster count at most.
	MaxObjects = 100_000
	// pauseOfTooMany is how long a cluster with too many is left alone, because reading them takes long.
	pauseOfTooMany = 10 * time.Second
)

// errTooMany says that a cluster has more RBAC objects than count.
var errTooMany = fmt.Errorf("its RBAC objects are larger than %d MiB or more than %d", maxBytes>>20, MaxObjects)

// member is a cluster with rights.
type member struct {
	name string
	// state is what was read last, or nil.
	state atomic.Pointer[cluster]

	// One read at a time uses the fields below.
	clusterID int64
	objects   map[int64]object
	bytes     int
	// wrong are objects that cannot be read, and why.
	wrong map[int64]string
}

type object struct {
	metav1.Object
	bytes int
}

// isOf reports whether a member is what the store had at a moment, or later.
func (m *member) isOf(now *index) bool {
	state := m.state.Load()
	return state != nil && (state.generation == now.Generations[m.name] || state.began.After(now.began))
}

// read reads what has changed in a cluster. Whatever is wrong with its objects makes the cluster grant nothing, and is no error.
func (r *Rights) read(m *member) error {
	before := m.state.Load()
	if before != nil && before.tooMany && time.Since(before.began) < pauseOfTooMany {
		return errTooMany
	}
	r.slots <- struct{}{}
	defer func() { <-r.slots }()
	state := newCluster(r.serial.Add(1), nil)
	state.began = time.Now()
	err := r.store.ReadRights(context.Background(), m.name, func(from *store.RightsReading) error {
		state.generation = from.Generation
		unknown, err := m.update(before, from)
		if err != nil {
			return err
		}
		m.fill(state, from, unknown)
		return nil
	})
	if err != nil {
		m.forget()
		return err
	}
	if state.unknown != "" && (before == nil || before.unknown != state.unknown) {
		klog.InfoS("The RBAC of a cluster does not count", "cluster", m.name, "reason", state.unknown)
	}
	m.state.Store(state)
	if before != nil {
		r.tell()
	}
	return nil
}

// forget has the next read begin from nothing.
func (m *member) forget() { m.clusterID, m.objects, m.wrong, m.bytes = 0, nil, nil, 0 }

// update reads the objects that have changed since a state. It returns errTooMany as tooMany if there are more than count.
func (m *member) update(before *cluster, from *store.RightsReading) (tooMany bool, err error) {
	after := int64(0)
	if before != nil && m.objects != nil && m.clusterID == from.ClusterID {
		after = before.generation
	}
	if from.Objects > MaxObjects {
		m.forget()
		return true, nil
	}
	if m.objects == nil || after == 0 {
		m.forget()
		m.objects, m.wrong = map[int64]object{}, map[int64]string{}
	}
	m.clusterID = from.ClusterID
	there := map[int64]bool{}
	whole, gone, err := from.Changes(context.Background(), after, func(o store.RBACObject) error {
		there[o.ID] = true
		m.remove(o.ID)
		decoded, err := store.DecodeRBAC(o.Resource, o.JSON)
		if err != nil {
			m.wrong[o.ID] = fmt.Sprintf("%s %s: %s", o.Resource, strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"), err)
			return nil
		}
		decoded.SetNamespace(o.Namespace)
		decoded.SetName(o.Name)
		m.objects[o.ID] = object{decoded, len(o.JSON)}
		if m.bytes += len(o.JSON); m.bytes > maxBytes || len(m.objects) > MaxObjects {
			return errTooMany
		}
		return nil
	})
	if errors.Is(err, errTooMany) {
		m.forget()
		return true, nil
	}
	if whole {
		for id := range m.objects {
			if !there[id] {
				gone = append(gone, id)
			}
		}
		for id := range m.wrong {
			if !there[id] {
				gone = append(gone, id)
			}
		}
	}
	for _, id := range gone {
		m.remove(id)
	}
	return false, err
}

func (m *member) remove(id int64) {
	m.bytes -= m.objects[id].bytes
	delete(m.objects, id)
	delete(m.wrong, id)
}

// fill makes a state of what a member has. What is wrong with it makes it grant nothing.
func (m *member) fill(state *cluster, from *store.RightsReading, tooMany bool) {
	var err error
	if state.identities, err = decodePolicy(from.Policy); err != nil {
		state.unknown = "its policy of rights is wrong: " + err.Error()
		return
	}
	for _, o := range m.objects {
		state.add(o.Object)
	}
	missing := Resources.Clone().Delete(from.Listed...)
	switch state.tooMany = tooMany; {
	case tooMany:
		state.unknown = errTooMany.Error()
	case len(missing) > 0:
		state.unknown = "its RBAC objects were not all received yet"
	case len(m.wrong) > 0:
		for _, why := range m.wrong {
			state.unknown = "an object cannot be read: " + why
			break
		}
	}
}
