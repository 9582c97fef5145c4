// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"context"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/discovery"
)

const (
	// pollInterval is the time between requests for the aggregator's discovery.
	pollInterval = 500 * time.Millisecond
	// settling is how long polling goes on after the aggregator's first answer: the aggregator may be starting too. Afterwards the RESTMapper
	// refreshes often enough by itself.
	settling = 30 * time.Second
)

// Kinds resets admission's RESTMapper when the aggregator's discovery changes at the start of a service. The RESTMapper itself refreshes
// only every 30 seconds. Until the aggregator's first answer it knows the service's own kinds alone, and a policy whose parameters are of
// another service would not work for that long.
//
// Kinds is an admission plugin that decides nothing: admission hands its RESTMapper to plugins only.
type Kinds struct {
	split *splitter

	mu    sync.Mutex
	known meta.ResettableRESTMapper
}

var (
	_ admission.Interface         = &Kinds{}
	_ initializer.WantsRESTMapper = &Kinds{}
)

// kindsPlugin is the name of the plugin. No flag can name it: it is registered after flags are validated.
const kindsPlugin = "TripodKinds"

// NewKinds returns a plugin that it has added to options. These must be validated, and not be applied yet.
func NewKinds(o *genericoptions.AdmissionOptions) *Kinds {
	k := &Kinds{}
	o.Plugins.Register(kindsPlugin, func(io.Reader) (admission.Interface, error) { return k, nil })
	o.RecommendedPluginOrder = append(slices.Clone(o.RecommendedPluginOrder), kindsPlugin)
	return k
}

// Handles implements admission.Interface.
func (*Kinds) Handles(admission.Operation) bool { return false }

// SetRESTMapper implements initializer.WantsRESTMapper.
func (k *Kinds) SetRESTMapper(mapper meta.RESTMapper) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.known, _ = mapper.(meta.ResettableRESTMapper)
}

// ValidateInitialization implements admission.InitializationValidator.
func (*Kinds) ValidateInitialization() error { return nil }

// reset makes the RESTMapper read discovery again.
func (k *Kinds) reset() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known != nil {
		k.known.Reset()
	}
}

// Run resets the RESTMapper on the aggregator's first answer, and on each change within 30 seconds after it. It returns afterwards, or when
// the context ends.
func (k *Kinds) Run(ctx context.Context) {
	seen := ""
	var end time.Time
	_ = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		if now, ok := k.split.fetchGroups(ctx, seen); ok {
			if end.IsZero() {
				end = time.Now().Add(settling)
			}
			if now != seen {
				seen = now
				k.reset()
			}
		}
		return !end.IsZero() && !time.Now().Before(end), nil
	}) // the only error is that the context ended
}

// fetchGroups asks the aggregator for its discovery document, unless that still has the ETag seen. It returns the document's ETag, and
// false without an answer.
func (s *splitter) fetchGroups(ctx context.Context, seen string) (version string, ok bool) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.host.JoinPath("apis").String(), http.NoBody)
	if err != nil {
		return "", false
	}
	req.Header.Set("Accept", discovery.AcceptV2)
	if seen != "" {
		req.Header.Set("If-None-Match", seen)
	}
	response, err := s.toAggregator(req)
	if err != nil {
		return "", false
	}
	defer response.Body.Close() //nolint:errcheck // it is not read
	switch response.StatusCode {
	case http.StatusOK:
		s.answered.Store(true)
		return response.Header.Get("ETag"), true
	case http.StatusNotModified:
		return seen, true
	}
	return "", false
}
