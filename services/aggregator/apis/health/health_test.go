// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/mux"
)

// checks are those of a server, by name and in order, each with its error or nil.
type checks []struct {
	name string
	err  error
}

// server answers as an API server with these checks does.
func (c checks) server() http.Handler {
	paths := mux.NewPathRecorderMux("test")
	var checkers []healthz.HealthChecker
	for _, check := range c {
		checkers = append(checkers, healthz.NamedCheck(check.name, func(*http.Request) error { return check.err }))
	}
	healthz.InstallReadyzHandler(paths, checkers...)
	return paths
}

// remote is a backend. One without a server is away, and one that hangs does not answer.
type remote struct {
	name   string
	server http.Handler
	hangs  bool
	asked  int
}

func (r *remote) Name() string                    { return r.name }
func (r *remote) AsAggregator() http.RoundTripper { return r }

func (r *remote) RoundTrip(req *http.Request) (*http.Response, error) {
	r.asked++
	if r.hangs {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	if r.server == nil {
		return nil, errors.New("refused")
	}
	w := httptest.NewRecorder()
	r.server.ServeHTTP(w, req)
	return w.Result(), nil
}

var errBad = errors.New("bad")

// world is an aggregator with two backends.
type world struct {
	own              checks
	core, extensions *remote
	note             error
}

func newWorld() *world {
	return &world{
		own: checks{{"ping", nil}, {"etcd", nil}, {"shutdown", nil}},
		core: &remote{name: "core", server: checks{
			{"ping", nil}, {"etcd", nil}, {"poststarthook/rbac/bootstrap-roles", nil}, {"shutdown", nil},
		}.server()},
		extensions: &remote{name: "extensions", server: checks{{"etcd", nil}, {"poststarthook/crd-informer-synced", nil}}.server()},
	}
}

func (w *world) get(target string) (code int, body string) {
	h := New([]Backend{w.core, w.extensions}, healthz.NamedCheck("note", func(*http.Request) error { return w.note }))
	recorder := httptest.NewRecorder()
	h.Wrap(w.own.server()).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, target, nil))
	answer, _ := io.ReadAll(recorder.Result().Body)
	return recorder.Code, string(answer)
}

func TestAllChecks(t *testing.T) {
	const bootstrap, crds = "poststarthook/rbac/bootstrap-roles", "poststarthook/crd-informer-synced"
	for _, tc := range []struct {
		name   string
		change func(*world)
		target string
		code   int
		want   []string
	}{
		{name: "one word", target: "/readyz", code: 200, want: []string{"ok"}},
		{name: "whatever the backends are", target: "/readyz", code: 200, want: []string{"ok"}, change: func(w *world) { w.core.server, w.note = nil, errBad }},
		{
			name: "each name once", target: "/readyz?verbose", code: 200,
			want: []string{"[+]ping ok", "[+]etcd ok", "[+]shutdown ok", "[+]" + bootstrap + " ok", "[+]" + crds + " ok", "[+]note ok", "readyz check passed"},
		},
		{
			name: "a backend is away", target: "/readyz?verbose", code: 200,
			change: func(w *world) { w.extensions.server, w.note = nil, errBad },
			want: []string{
				"[+]ping ok", "[+]etcd ok", "[+]shutdown ok", "[+]" + bootstrap + " ok", "[-]note failed: reason withheld, ignored", "readyz check passed",
			},
		},
		{
			name: "a check fails in a backend", target: "/readyz?verbose", code: 200,
			change: func(w *world) {
				w.extensions.server = checks{{"ping", errBad}, {"etcd", errBad}, {crds, errBad}}.server()
			},
			want: []string{
				"[+]ping ok", "[-]etcd failed in extensions: reason withheld, ignored", "[+]shutdown ok", "[+]" + bootstrap + " ok",
				"[-]" + crds + " failed in extensions: reason withheld, ignored", "[+]note ok", "readyz check passed",
			},
		},
		{
			name: "a check of its own fails", target: "/readyz", code: 500,
			change: func(w *world) { w.own[1].err = errBad },
			want: []string{
				"[+]ping ok", "[-]etcd failed: reason withheld", "[+]shutdown ok", "[+]" + bootstrap + " ok", "[+]" + crds + " ok", "[+]note ok", "readyz check failed",
			},
		},
		{
			name: "checks of all can be excluded", target: "/readyz?verbose&exclude=etcd&exclude=" + crds + "&exclude=note&exclude=no%22such", code: 200,
			change: func(w *world) { w.own[1].err, w.note = errBad, errBad },
			want: []string{
				"[+]ping ok", "[+]etcd excluded: ok", "[+]shutdown ok", "[+]" + bootstrap + " ok", "[+]" + crds + " excluded: ok", "[+]note excluded: ok",
				`warn: some health checks cannot be excluded: no matches for "no\"such"`, "readyz check passed",
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld()
			if tc.change != nil {
				tc.change(w)
			}
			code, body := w.get(tc.target)
			if want := strings.Join(tc.want, "\n"); code != tc.code || strings.TrimSuffix(body, "\n") != want {
				t.Errorf("%d: %s\nwant %d: %s", code, body, tc.code, want)
			}
			if short := tc.target == "/readyz" && tc.code == 200; short != (w.core.asked == 0) {
				t.Errorf("core was asked %d times", w.core.asked)
			}
		})
	}
}

func TestOneCheck(t *testing.T) {
	const bootstrap = "poststarthook/rbac/bootstrap-roles"
	away := func(w *world) { w.extensions.server = nil }
	for _, tc := range []struct {
		check  string
		change func(*world)
		code   int
		says   string
	}{
		{check: "ping", code: 200, says: "ok"},
		{check: "ping", code: 200, says: "ok", change: func(w *world) { w.core.server = checks{{"ping", errBad}}.server() }},
		{check: "etcd", code: 200, says: "ok"},
		{check: "etcd", code: 200, says: "ok", change: away},
		{check: "etcd", code: 500, says: "internal server error: bad", change: func(w *world) { w.own[1].err = errBad }},
		{check: "etcd", code: 500, says: "internal server error: bad", change: func(w *world) { w.extensions.server = checks{{"etcd", errBad}}.server() }},
		{check: bootstrap, code: 200, says: "ok"},
		{check: bootstrap, code: 200, says: "ok", change: away},
		{check: bootstrap, code: 500, says: "internal server error: core cannot be asked", change: func(w *world) { w.core.server = nil }},
		{check: "note", code: 200, says: "ok"},
		{check: "note", code: 500, says: "internal server error: bad", change: func(w *world) { w.note = errBad }},
		{check: "unknown", code: 404, says: "404 page not found"},
		{check: "unknown", code: 500, says: "internal server error: extensions cannot be asked", change: away},
		{check: "", code: 404, says: "404 page not found"},
	} {
		w := newWorld()
		if tc.change != nil {
			tc.change(w)
		}
		if code, body := w.get("/readyz/" + tc.check); code != tc.code || strings.TrimSpace(body) != tc.says {
			t.Errorf("%s: %d %q, want %d %q", tc.check, code, body, tc.code, tc.says)
		}
	}
}

func TestABackendThatHangsDelaysTheAnswerOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.core.hangs = true
		code, body := w.get("/readyz?verbose")
		if code != http.StatusOK || strings.Contains(body, "bootstrap-roles") || !strings.Contains(body, "crd-informer-synced") {
			t.Errorf("%d: %s", code, body)
		}
	})
}

func TestBackendsAreAskedOnceASecondHoweverManyAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.core.server = checks{{"etcd", errBad}}.server()
		h := New([]Backend{w.core, w.extensions}).Wrap(w.own.server())
		for second := 1; second <= 3; second++ {
			var clients sync.WaitGroup
			for i := range 100 {
				for _, target := range []string{
					fmt.Sprintf("/readyz?verbose&exclude=%d", i), fmt.Sprintf("/readyz?verbose=%d", i), fmt.Sprintf("/readyz/%d", i), "/readyz/etcd",
				} {
					clients.Go(func() {
						h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, target, nil))
					})
				}
			}
			clients.Wait()
			// Once for all checks, and core once more for the reason of the one that fails.
			if w.core.asked > 2*second || w.extensions.asked > 2*second {
				t.Errorf("after %d s, core was asked %d times, extensions %d times", second, w.core.asked, w.extensions.asked)
			}
			time.Sleep(freshness)
		}
	})
}

func TestOtherPathsAreNotTouched(t *testing.T) {
	own := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { _, _ = fmt.Fprint(w, req.URL) })
	for _, target := range []string{"/", "/readyzz", "/readyz/", "/metrics?verbose"} {
		w := httptest.NewRecorder()
		New(nil).Wrap(own).ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
		if w.Body.String() != target {
			t.Errorf("%s arrives as %s", target, w.Body)
		}
	}
}
