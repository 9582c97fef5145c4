// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package health answers /livez, /readyz and /healthz for all services, as kube-apiserver does for all of its parts: with
// ?verbose and ?exclude=NAME, and each check at a path of its own.
//
// Whether the aggregator is well is decided by its own checks alone. Those of core and extensions are shown beside them, under
// the names that kube-apiserver has for them, and where they fail this is said to be ignored: while one of the two is away,
// what the other serves must stay reachable. A check by its own path tells the truth:
//
//	/readyz                                              ok                        200
//	/readyz?verbose                                      [+]ping ok
//	                                                     ...
//	                                                     [-]extensions-available failed: reason withheld, ignored
//	                                                     readyz check passed       200
//	/readyz/extensions-available                         internal server error...  500
//	/readyz/poststarthook/rbac/bootstrap-roles           what core says
//	/readyz/etcd                                         whether every service that can be reached reaches its etcd
package health

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"k8s.io/apiserver/pkg/server/healthz"
)

// Backend is a service whose checks are shown.
type Backend interface {
	Name() string
	// AsAggregator returns a transport for requests in the aggregator's own name.
	AsAggregator() http.RoundTripper
}

// Handler knows the health of all services.
type Handler struct {
	backends []Backend
	notes    []healthz.HealthChecker
}

// New returns the health of the aggregator, whose own is added by Wrap, and of the backends. notes are further checks that are
// shown but not counted.
func New(backends []Backend, notes ...healthz.HealthChecker) *Handler {
	return &Handler{backends: backends, notes: notes}
}

// roots are the paths of health.
var roots = []string{"/livez", "/readyz", "/healthz"}

// IsHealthPath reports whether a path tells about health. The aggregator answers there for all services.
func IsHealthPath(path string) bool {
	return slices.ContainsFunc(roots, func(root string) bool { return path == root || strings.HasPrefix(path, root+"/") })
}

// alone are checks of the very process that is asked.
var alone = []string{"ping", "log", "shutdown"}

// Wrap returns a handler that adds to what own says about the health of the aggregator, and has own answer everything else.
func (h *Handler) Wrap(own http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		for _, root := range roots {
			if req.URL.Path == root {
				h.serveAll(w, req, root, own)
				return
			}
			if check, ok := strings.CutPrefix(req.URL.Path, root+"/"); ok && check != "" {
				h.serveCheck(w, req, check, own)
				return
			}
		}
		own.ServeHTTP(w, req)
	})
}

// serveAll answers whether the aggregator is well. Backends are asked only where the answer shows it.
func (h *Handler) serveAll(w http.ResponseWriter, req *http.Request, root string, own http.Handler) {
	query := req.URL.Query()
	asked := record(own, req, req.URL)
	if asked.code == http.StatusOK && !query.Has("verbose") {
		asked.copyTo(w)
		return
	}
	in := &url.URL{Path: root, RawQuery: url.Values{"verbose": {""}, "exclude": query["exclude"]}.Encode()}
	l := newList(query["exclude"])
	l.addOwn(parse(string(asked.body)))
	for i, answer := range h.ask(req.Context(), in) {
		l.addBackend(h.backends[i].Name(), parse(answer.text))
	}
	for _, note := range h.notes {
		l.addNote(note.Name(), note.Check(req))
	}

	name := strings.TrimPrefix(root, "/")
	if asked.code != http.StatusOK {
		http.Error(w, l.String()+name+" check failed", asked.code)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = fmt.Fprintf(w, "%s%s check passed\n", l, name)
}

// serveCheck answers whether a single check passes, wherever that is made.
func (h *Handler) serveCheck(w http.ResponseWriter, req *http.Request, check string, own http.Handler) {
	if i := slices.IndexFunc(h.notes, func(n healthz.HealthChecker) bool { return n.Name() == check }); i >= 0 {
		if err := h.notes[i].Check(req); err != nil {
			fail(w, err.Error())
			return
		}
		_, _ = fmt.Fprint(w, "ok")
		return
	}
	asked := record(own, req, req.URL)
	if slices.Contains(alone, check) || (asked.code != http.StatusOK && asked.code != http.StatusNotFound) {
		asked.copyTo(w)
		return
	}
	passes := asked.code == http.StatusOK
	var away []string
	for i, answer := range h.ask(req.Context(), &url.URL{Path: req.URL.Path}) {
		switch answer.code {
		case http.StatusOK:
			passes = true
		case http.StatusNotFound:
		case http.StatusInternalServerError:
			http.Error(w, strings.TrimSuffix(answer.text, "\n"), answer.code)
			return
		default:
			away = append(away, h.backends[i].Name())
		}
	}
	switch {
	case passes:
		_, _ = fmt.Fprint(w, "ok")
	case len(away) > 0:
		// It may be a check of theirs.
		fail(w, strings.Join(away, " and ")+" cannot be asked")
	default:
		asked.copyTo(w)
	}
}

// fail answers as a check does that fails.
func fail(w http.ResponseWriter, why string) {
	http.Error(w, "internal server error: "+why, http.StatusInternalServerError)
}

// ask asks all backends at once, and returns their answers in the same order.
func (h *Handler) ask(ctx context.Context, where *url.URL) []remoteAnswer {
	answers := make([]remoteAnswer, len(h.backends))
	var asking sync.WaitGroup
	for i, b := range h.backends {
		asking.Go(func() { answers[i] = get(ctx, b, where) })
	}
	asking.Wait()
	return answers
}
