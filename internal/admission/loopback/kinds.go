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
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/discovery"

	"github.com/tripod-k8s/tripod/internal/hop/retry"
)

const (
	// lookInterval is how often the aggregator is asked what there is, by who has not heard it yet or only just has.
	lookInterval = 500 * time.Millisecond
	// settling is how long, after it was heard, it is asked whether there is more: it may be starting too. From then on admission looks
	// often enough.
	settling = 30 * time.Second
)

// Kinds are what admission knows of the kinds that there are. It looks at them anew every half minute; before the aggregator was first
// heard these are kinds of the service alone, and policies that take parameters of others would wait for so long.
//
// It is a plugin of admission that admits everything: plugins alone are handed what admission knows.
type Kinds struct {
	split *splitter

	mu    sync.Mutex
	known meta.ResettableRESTMapper
}

var (
	_ admission.Interface         = &Kinds{}
	_ initializer.WantsRESTMapper = &Kinds{}
)

// kindsPlugin is the name among plugins. No flag can name it, because it is not there yet when flags are read.
const kindsPlugin = "TripodKinds"

// NewKinds adds itself to options that were validated and not applied yet.
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

// forget has admission look at the kinds anew.
func (k *Kinds) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known != nil {
		k.known.Reset()
	}
}

// Run has admission look at the kinds anew when the aggregator is first heard, and when it tells more soon afterwards. It returns then,
// or when the context ends.
func (k *Kinds) Run(ctx context.Context) {
	seen := ""
	var end <-chan time.Time
	for {
		if now, ok := k.split.look(ctx, seen); ok {
			if end == nil {
				end = time.After(settling)
			}
			if now != seen {
				seen = now
				k.forget()
			}
		}
		select {
		case <-end:
			return
		default:
		}
		if !retry.For(ctx, lookInterval) {
			return
		}
	}
}

// look asks the aggregator what there is. It returns the version of that, and whether there was an answer.
func (s *splitter) look(ctx context.Context, seen string) (version string, ok bool) {
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
	defer response.Body.Close() //nolint:errcheck // nobody reads it
	switch response.StatusCode {
	case http.StatusOK:
		s.heard.Store(true)
		return response.Header.Get("ETag"), true
	case http.StatusNotModified:
		return seen, true
	}
	return "", false
}
