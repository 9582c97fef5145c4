// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package health answers /livez, /readyz and /healthz for all services, as kube-apiserver does for all of its parts: with
// ?verbose and ?exclude=NAME, and each check at a path of its own.
//
// Only the aggregator's own checks decide whether it is well. The list also shows those of core and extensions, under the names that
// kube-apiserver has for them, and says that it ignores their failures: while one of the two is away, clients must still
// reach what the other serves. A check at its own path does count:
//
//	/readyz                                              ok                        200
//	/readyz?verbose                                      [+]ping ok
//	                                                     ...
//	                                                     [-]extensions-available failed: reason withheld, ignored
//	                                                     readyz check passed       200
//	/readyz/extensions-available                         internal server error...  500
//	/readyz/poststarthook/rbac/bootstrap-roles           what core says
//	/readyz/etcd                                         whether every service that can be reached reaches its etcd
//
// Any client may ask. So the backends are asked again after a second at the earliest, however many clients ask, and only for checks that
// they have.
package health

import (
	"fmt"
	"net/http"
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
	// answers are the recent answers of backends, by path.
	answers sync.Map
}

// New returns the health of the backends. Wrap adds that of the aggregator. notes are additional checks that the list shows and that do
// not count.
func New(backends []Backend, notes ...healthz.HealthChecker) *Handler {
	return &Handler{backends: backends, notes: notes}
}

// roots are the paths of health.
var roots = []string{"/livez", "/readyz", "/healthz"}

// IsHealthPath reports whether a path is of a health check. The aggregator answers there for all services.
func IsHealthPath(path string) bool {
	return slices.ContainsFunc(roots, func(root string) bool { return path == root || strings.HasPrefix(path, root+"/") })
}

// alone are checks that are only about the process that answers.
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

// serveAll answers whether the aggregator is well. It asks backends only if the answer shows their checks.
func (h *Handler) serveAll(w http.ResponseWriter, req *http.Request, root string, own http.Handler) {
	query := req.URL.Query()
	asked := record(own, req, req.URL)
	if asked.code == http.StatusOK && !query.Has("verbose") {
		asked.copyTo(w)
		return
	}
	l := newList(query["exclude"])
	l.addOwn(parse(string(asked.body)))
	for i, answer := range h.ask(all(root)) {
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

// serveCheck answers whether a single check passes, of whichever service it is.
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
	for i, answer := range h.ask(all(strings.TrimSuffix(req.URL.Path, "/"+check))) {
		lines := parse(answer.text)
		named := slices.IndexFunc(lines, func(l line) bool { return l.name == check })
		switch {
		case answer.code == 0 || len(lines) == 0:
			away = append(away, h.backends[i].Name())
		case named < 0:
		case lines[named].fine:
			passes = true
		default:
			fail(w, h.reason(i, req.URL.Path))
			return
		}
	}
	switch {
	case passes:
		_, _ = fmt.Fprint(w, "ok")
	case len(away) > 0:
		// The check may be theirs.
		fail(w, strings.Join(away, " and ")+" cannot be asked")
	default:
		asked.copyTo(w)
	}
}

// fail answers as a failed check does.
func fail(w http.ResponseWriter, why string) {
	http.Error(w, "internal server error: "+why, http.StatusInternalServerError)
}
