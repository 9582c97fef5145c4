// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package feeds

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/service/settings"
	backendv1 "github.com/tripod-k8s/tripod/proto/backend/v1"
)

// Versions compares the versions of Kubernetes of all replicas with one another, and holds back those that do not fit ([settings.Misfits]).
// A replica that is held back gets requests only if no other replica of its service serves.
type Versions struct {
	mu  sync.Mutex
	own *backendv1.Settings
	// reported are the replicas that have reported their settings, by name.
	reported map[string]*versioned
	// last has the reasons by the names of replicas.
	last map[string]string
}

// versioned is a replica with a version.
type versioned struct {
	backend  Backend
	address  string
	settings *backendv1.Settings
	// live is false once its feed is lost. It stays held back then, but others do not have to fit to it.
	live bool
}

// NewVersions returns a comparison for an aggregator with these settings.
func NewVersions(own *backendv1.Settings) *Versions {
	return &Versions{own: own, reported: map[string]*versioned{}}
}

// nameOf is the name of a replica in messages.
func nameOf(b Backend, address string) string { return b.Name() + " at " + address }

// set stores what a replica reports, which may be nil.
func (v *Versions) set(b Backend, address string, reported *backendv1.Settings) {
	v.change(func() { v.reported[nameOf(b, address)] = &versioned{b, address, reported, true} })
}

// lose records that the feed of a replica is lost.
func (v *Versions) lose(b Backend, address string) {
	v.change(func() {
		if r := v.reported[nameOf(b, address)]; r != nil {
			r.live = false
		}
	})
}

// forget removes a replica.
func (v *Versions) forget(b Backend, address string) {
	v.change(func() { delete(v.reported, nameOf(b, address)) })
}

func (v *Versions) change(apply func()) {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	apply()
	live := map[string]*backendv1.Settings{}
	for name, r := range v.reported {
		if r.live {
			live[name] = r.settings
		}
	}
	misfits := settings.Misfits(v.own, live)
	for name, r := range v.reported {
		why, was := misfits[name], v.last[name]
		if !r.live && was != "" {
			misfits[name], why = was, was
		}
		r.backend.SetHeldBack(r.address, why != "")
		switch why {
		case was:
		case "":
			klog.InfoS("A replica gets requests again", "backend", r.backend.Name(), "replica", r.address)
		default:
			klog.ErrorS(nil, "A replica gets no requests while another one serves", "backend", r.backend.Name(), "replica", r.address, "reason", why)
		}
	}
	v.last = misfits
}

// holdsBack reports whether a replica is held back.
func (v *Versions) holdsBack(b Backend, address string) bool {
	if v == nil {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.last[nameOf(b, address)] != ""
}

// Agree returns nil if no replica is held back. Otherwise the error names them, with the reasons.
func (v *Versions) Agree() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	var found []string
	for _, name := range slices.Sorted(maps.Keys(v.last)) {
		found = append(found, fmt.Sprintf("%s gets no requests: %s", name, v.last[name]))
	}
	if len(found) == 0 {
		return nil
	}
	return errors.New(strings.Join(found, "; "))
}
