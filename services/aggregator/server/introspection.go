// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/server/healthz"

	"github.com/tripod-k8s/tripod/services/aggregator/apis/health"
	"github.com/tripod-k8s/tripod/services/aggregator/peers/feeds"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
)

// newHealth returns the health of all services, with what does not make this server unready but should be known.
func (c *Config) newHealth() *health.Handler {
	var shown []health.Backend
	var notes []healthz.HealthChecker
	for _, b := range c.backends {
		shown, notes = append(shown, b), append(notes, available(b))
	}
	notes = append(notes,
		healthz.NamedCheck("same-settings", func(*http.Request) error {
			return inOneLine(ofFeeds(c.backends, (*feeds.Follower).Agree), c.versions.Agree())
		}),
		healthz.NamedCheck("same-configuration", func(*http.Request) error { return c.comparison.Agree() }))
	return health.New(shown, notes...)
}

// errNoFeed is for a server that answers probes and is no API service as this aggregator expects it.
var errNoFeed = errors.New("no replica has reported yet what it serves: a service needs a feed at its gRPC address, as the module " +
	"apiservice has it (docs/extend.md)")

// available fails while no replica of a backend is ready, or what it serves is unknown.
func available(b *backend) healthz.HealthChecker {
	return healthz.NamedCheck(b.Name()+"-available", func(*http.Request) error {
		ok, why := b.Ready()
		switch {
		case !ok:
			return errors.New(why)
		case b.rank > 0 && !b.feed.HasSynced():
			return errNoFeed
		}
		return nil
	})
}

// agreedOnce fails until each required backend had a replica that was started with the settings of this server. Later, replicas may
// differ for as long as it takes to start all of them anew.
func (c *Config) agreedOnce() healthz.HealthChecker {
	return healthz.NamedCheck("same-settings-once", func(*http.Request) error {
		return ofFeeds(c.backends.required(), (*feeds.Follower).AgreedOnce)
	})
}

func ofFeeds(of backends, check func(*feeds.Follower) error) error {
	var errs []error
	for _, b := range of {
		errs = append(errs, check(b.feed))
	}
	return inOneLine(errs...)
}

// inOneLine joins errors, as a check of /readyz has one line.
func inOneLine(errs ...error) error {
	var texts []string
	for _, err := range errs {
		if err != nil {
			texts = append(texts, err.Error())
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return errors.New(strings.Join(texts, "; "))
}

// refuseUnknownServices answers 400 to requests that ask about an unknown service.
func refuseUnknownServices(next http.Handler, known routing.Backends, s runtime.NegotiatedSerializer) http.Handler {
	names := append([]string{string(routing.Aggregator)}, known...)
	list := strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if routing.Of(req).UnknownService {
			refused := apierrors.NewBadRequest("service: must be " + list)
			responsewriters.ErrorNegotiated(refused, s, schema.GroupVersion{Version: "v1"}, w, req)
			return
		}
		next.ServeHTTP(w, req)
	})
}
