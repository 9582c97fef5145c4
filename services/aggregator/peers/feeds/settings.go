// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package feeds

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/service/settings"
	backendv1 "github.com/tripod-k8s/tripod/proto/backend/v1"
)

// compare records how the settings of a replica differ from those of this process, if the message has them.
func (f *Follower) compare(address string, r *replica, reported *backendv1.Settings) {
	before := r.differences
	differences := settings.Differences
	if f.config.OfOthers {
		differences = settings.DifferencesOfOthers
	}
	r.differences = differences(f.config.Settings, reported)
	if len(r.differences) == 0 {
		f.agreed = true
		return
	}
	if r.live && slices.Equal(before, r.differences) {
		return
	}
	klog.ErrorS(nil, "A replica was started with other settings than this aggregator",
		"backend", f.config.Backend.Name(), "replica", address, "differences", r.differences)
}

// Agree returns nil if all replicas with a live feed have the settings of this process. Otherwise the error lists the differences.
func (f *Follower) Agree() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []string
	for _, address := range slices.Sorted(maps.Keys(f.replicas)) {
		if r := f.replicas[address]; r.live && len(r.differences) > 0 {
			found = append(found, fmt.Sprintf("%s at %s: %s", f.config.Backend.Name(), address, strings.Join(r.differences, ", ")))
		}
	}
	if len(found) > 0 {
		return errors.New(strings.Join(found, "; "))
	}
	return nil
}

// AgreedOnce returns nil once any replica has reported the settings of this process.
func (f *Follower) AgreedOnce() error {
	f.mu.Lock()
	agreed := f.agreed
	f.mu.Unlock()
	if agreed {
		return nil
	}
	if err := f.Agree(); err != nil {
		return err
	}
	return fmt.Errorf("no replica of %s has reported yet", f.config.Backend.Name())
}
