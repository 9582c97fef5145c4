// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tripod-k8s/tripod/local/process"
)

// FleetConfig configures a fleet. Its functions are not called concurrently, except Report.
type FleetConfig struct {
	// Process returns how to run a replica. number counts the replicas of its service from 0.
	Process func(r *Replica, number int) (process.Process, error)
	// Use is called when the set of replicas in use changes (see Used).
	Use func() error
	// Report prints what happens to a replica.
	Report func(name, what string)
	// Notice is how long senders of requests may take to notice that a replica is no longer in use.
	Notice time.Duration
}

// Fleet is the replicas of all services.
type Fleet struct {
	group  *process.Group
	config FleetConfig

	// changing is held while replicas are added or removed.
	changing sync.Mutex

	mu      sync.Mutex
	members map[string][]*member
}

// member is one replica. The members of a service are numbered without gaps.
type member struct {
	replica *Replica
	child   *process.Child
	// used is false until the replica is ready, and when it is about to stop.
	used bool
}

// NewFleet returns a fleet without replicas. Its replicas become children of the group.
func NewFleet(group *process.Group, config FleetConfig) *Fleet {
	return &Fleet{group: group, config: config, members: map[string][]*member{}}
}

// Count is the wanted number of replicas of a service.
type Count struct {
	Name     string
	Replicas int
}

// Start starts all replicas and returns them. They are in use at once, because they wait for each other.
func (f *Fleet) Start(services []Count) ([]*process.Child, error) {
	f.changing.Lock()
	defer f.changing.Unlock()
	var added []*member
	for _, service := range services {
		for number := range service.Replicas {
			m, err := newMember(service.Name, number)
			if err != nil {
				return nil, errors.Join(err, f.forget(added))
			}
			added = append(added, m)
		}
	}
	f.add(added)
	if err := f.use(added); err != nil {
		return nil, errors.Join(err, f.forget(added))
	}
	var children []*process.Child
	for _, m := range added {
		if err := f.run(m); err != nil {
			return nil, err
		}
		children = append(children, m.child)
	}
	return children, nil
}

// Stop waits for a Scale to end, whose context must have ended, and stops all replicas.
func (f *Fleet) Stop() {
	f.changing.Lock()
	defer f.changing.Unlock()
	f.group.Stop()
}

// Used returns the replicas of a service that are in use.
func (f *Fleet) Used(service string) []*Replica {
	f.mu.Lock()
	defer f.mu.Unlock()
	var used []*Replica
	for _, m := range f.members[service] {
		if m.used {
			used = append(used, m.replica)
		}
	}
	return used
}

// Ready returns the replicas in use, those that are ready now apart from the others.
func (f *Fleet) Ready(service string) (ready, unready []*Replica) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.members[service] {
		switch {
		case !m.used:
		case m.child != nil && m.child.Status().Ready:
			ready = append(ready, m.replica)
		default:
			unready = append(unready, m.replica)
		}
	}
	return ready, unready
}

func newMember(service string, number int) (*member, error) {
	r, err := NewReplica(service, fmt.Sprintf("%s-%d", service, number))
	if err != nil {
		return nil, err
	}
	return &member{replica: r}, nil
}

// of returns the members of a service.
func (f *Fleet) of(service string) []*member {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.members[service])
}

func (f *Fleet) add(members []*member) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range members {
		service := m.replica.Service
		f.members[service] = append(f.members[service], m)
	}
}

// run starts the process of a member.
func (f *Fleet) run(m *member) error {
	number := slices.Index(f.of(m.replica.Service), m)
	process, err := f.config.Process(m.replica, number)
	if err != nil {
		return fmt.Errorf("%s cannot start: %w", m.replica.Name, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	m.child = f.group.Start(process)
	return nil
}

// use puts members into use.
func (f *Fleet) use(members []*member) error { return f.setUsed(members, true) }

// spare takes members out of use.
func (f *Fleet) spare(members []*member) error { return f.setUsed(members, false) }

func (f *Fleet) setUsed(members []*member, used bool) error {
	changed := false
	f.mu.Lock()
	for _, m := range members {
		changed = changed || m.used != used
		m.used = used
	}
	f.mu.Unlock()
	if !changed {
		return nil
	}
	return f.config.Use()
}

// forget stops members that run, the last one first, and releases what they hold.
func (f *Fleet) forget(members []*member) error {
	err := f.spare(members)
	for _, m := range slices.Backward(members) {
		if m.child != nil {
			f.group.Remove(m.child)
		}
		m.replica.Release()
		f.mu.Lock()
		service := m.replica.Service
		f.members[service] = slices.DeleteFunc(f.members[service], func(other *member) bool { return other == m })
		f.mu.Unlock()
	}
	return err
}
