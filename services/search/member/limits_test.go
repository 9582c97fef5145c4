// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/services/search/store"
)

// hostile returns a member whose API server answers all requests with a function.
func hostile(t *testing.T, change func(*Limits), answer http.HandlerFunc) *Member {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return newMember(t, &rest.Config{Host: server.URL}, func(l *Limits) {
		l.ObjectSize.Set(1 << 20)
		l.DocumentSize.Set(1 << 20)
		if change != nil {
			change(l)
		}
	})
}

// endless writes a text until the client is gone.
func endless(w io.Writer, text string) {
	for {
		if _, err := io.WriteString(w, text); err != nil {
			return
		}
	}
}

// short is a time that a member may take in tests.
func short(l *Limits) { l.Timeout = time.Second }

// shortFor makes the time short for tests that wait for its end. Others must not run into it on a slow machine.
func shortFor(limit string) func(*Limits) {
	if limit == limitTime {
		return short
	}
	return nil
}

func (m *Member) source() source {
	return source{client: m.client, limiter: m.limiter, resource: configMaps}
}

// readAll reads a list or a watch as far as it goes.
func readAll(ctx context.Context, s source, path string) error {
	done := func(i item) error { i.done(); return nil }
	if path == "list" {
		_, _, _, err := s.page(ctx, "", done)
		return err
	}
	return s.watch(ctx, "1", path == "initial", func() {}, func(e event) error { return done(e.item) })
}

func TestAnAnswerHasLimits(t *testing.T) {
	list := func(w http.ResponseWriter) { io.WriteString(w, `{"metadata":{},"items":[`) }                   //nolint:errcheck // the client is gone
	watched := func(w http.ResponseWriter) { io.WriteString(w, `{"type":"ADDED","object":{"data":{"x":"`) } //nolint:errcheck // the client is gone
	for name, test := range map[string]struct {
		path   string
		answer http.HandlerFunc
		limit  string
	}{
		"an endless object in a list": {"list", func(w http.ResponseWriter, _ *http.Request) {
			list(w)
			io.WriteString(w, `{"data":{"x":"`) //nolint:errcheck // the client is gone
			endless(w, strings.Repeat("x", 1000))
		}, "object-size"},
		"an endless text in a watch": {"watch", func(w http.ResponseWriter, _ *http.Request) { watched(w); endless(w, strings.Repeat("x", 1000)) }, "object-size"},
		"an endless event":           {"initial", func(w http.ResponseWriter, _ *http.Request) { watched(w); endless(w, strings.Repeat("x", 1000)) }, "object-size"},
		"endless blanks":             {"list", func(w http.ResponseWriter, _ *http.Request) { list(w); endless(w, strings.Repeat(" ", 1000)) }, "object-size"},
		"an endless field": {"list", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"x":"`) // endless sees whether the client is gone
			endless(w, strings.Repeat("x", 1000))
		}, "object-size"},
		"a bomb": {"list", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			bomb := gzip.NewWriter(w)
			io.WriteString(bomb, `{"items":[{"data":{"x":"`) //nolint:errcheck // the client is gone
			endless(bomb, strings.Repeat("x", 1000))
		}, "object-size"},
		"compression of nothing": {"list", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			io.WriteString(w, "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff") //nolint:errcheck // the client is gone
			endless(w, strings.Repeat("\x00\x00\x00\xff\xff", 1000))
		}, "object-size"},
		"empty texts": {"list", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			var empty strings.Builder
			gzip.NewWriter(&empty).Close()
			endless(w, strings.Repeat(empty.String(), 1000))
		}, "object-size"},
		"a list that stops":    {"list", func(w http.ResponseWriter, req *http.Request) { list(w); stop(w, req) }, limitTime},
		"an object that stops": {"watch", func(w http.ResponseWriter, req *http.Request) { watched(w); stop(w, req) }, limitTime},
		"a streaming list that does not end": {"initial", func(w http.ResponseWriter, req *http.Request) {
			io.WriteString(w, `{"type":"ADDED","object":{}}`) //nolint:errcheck // the client is gone
			stop(w, req)
		}, limitTime},
		"one byte at a time": {"watch", func(w http.ResponseWriter, req *http.Request) {
			watched(w)
			for req.Context().Err() == nil {
				io.WriteString(w, "x") //nolint:errcheck // the client is gone
				w.(http.Flusher).Flush()
				time.Sleep(10 * time.Millisecond)
			}
		}, limitTime},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := hostile(t, shortFor(test.limit), test.answer)
			var limit *LimitError
			err := readAll(t.Context(), m.source(), test.path)
			require.ErrorAs(t, err, &limit)
			assert.Equal(t, test.limit, limit.Limit)
			assert.Zero(t, m.limiter.large.count(), "its memory is free again")
		})
	}
}

// stop sends what was written, and nothing more.
func stop(w http.ResponseWriter, req *http.Request) {
	w.(http.Flusher).Flush()
	<-req.Context().Done()
}

func TestADocumentHasLimits(t *testing.T) {
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		limit  string
	}{
		"endless": {func(w http.ResponseWriter, _ *http.Request) { endless(w, strings.Repeat(" ", 1000)) }, "document-size"},
		"a bomb": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			endless(gzip.NewWriter(w), strings.Repeat(" ", 1000))
		}, "document-size"},
		"many small parts": {func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"items":[{}`+strings.Repeat(",{}", discoveryObjects)+`]}`) //nolint:errcheck // the client is gone
		}, "document-size"},
		"many nulls": {func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"groups":[null`+strings.Repeat(",null", discoveryObjects)+`]}`) //nolint:errcheck // the client is gone
		}, "document-size"},
		"deep":    {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, strings.Repeat("[", 1000)) }, "document-size"}, //nolint:errcheck // the client is gone
		"silent":  {func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() }, limitTime},
		"stopped": {func(w http.ResponseWriter, req *http.Request) { io.WriteString(w, "{"); stop(w, req) }, limitTime}, //nolint:errcheck // the client is gone
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := hostile(t, shortFor(test.limit), test.answer)
			var limit *LimitError
			_, _, err := m.discover(t.Context())
			require.ErrorAs(t, err, &limit)
			assert.Equal(t, test.limit, limit.Limit)
			assert.Zero(t, m.limiter.large.count(), "its memory is free again")
		})
	}
}

func TestAFailureHasALimit(t *testing.T) {
	m := hostile(t, short, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		endless(w, "no ")
	})
	require.Error(t, readAll(t.Context(), m.source(), "list"))
	_, _, err := m.discover(t.Context())
	require.Error(t, err)
}

func TestAHeaderHasALimit(t *testing.T) {
	m := hostile(t, short, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", headerSize+1)) })
	require.Error(t, readAll(t.Context(), m.source(), "list"))
}

func TestDiscoveryOfEachGroupVersionHasLimits(t *testing.T) {
	var asked atomic.Int64
	m := hostile(t, nil, func(w http.ResponseWriter, req *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		switch req.URL.Path {
		case "/version":
			fmt.Fprint(w, `{}`)
		case "/api":
			fmt.Fprint(w, `{"kind": "APIVersions", "versions": []}`)
		case "/apis":
			var groups []string
			for n := range 4 * roundRequests {
				groups = append(groups, fmt.Sprintf(`{"name":"g%d.io","versions":[{"groupVersion":"g%[1]d.io/v1","version":"v1"}]}`, n))
			}
			fmt.Fprintf(w, `{"kind": "APIGroupList", "groups": [%s]}`, strings.Join(groups, ","))
		default:
			fmt.Fprintf(w, `{"kind": "APIResourceList", "groupVersion": %q, "resources": []}`, strings.TrimPrefix(req.URL.Path, "/apis/"))
		}
	})
	kinds, missing, err := m.discover(t.Context())
	assert.Empty(t, kinds)
	assert.True(t, err != nil || len(missing) > 0)
	assert.LessOrEqual(t, asked.Load(), int64(roundRequests))
}

func TestAListThatDoesNotEnd(t *testing.T) {
	for name, page := range map[string]func(n int) (objects int, token string){
		"without objects":    func(n int) (int, string) { return 0, fmt.Sprint(n) },
		"with the same page": func(int) (int, string) { return 1, "token" },
		"with a huge token":  func(n int) (int, string) { return 1, fmt.Sprint(n, strings.Repeat("x", maxToken)) },
		"with many objects":  func(n int) (int, string) { return 100, fmt.Sprint(n) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := 0
			m := hostile(t, func(l *Limits) { l.Objects = 1000 }, func(w http.ResponseWriter, _ *http.Request) {
				n++
				objects, token := page(n)
				var items []string
				for i := range objects {
					items = append(items, object(fmt.Sprintf("o-%d-%d", n, i), 1))
				}
				fmt.Fprintf(w, `{"metadata":{"continue":%q},"items":[%s]}`, token, strings.Join(items, ","))
			})
			s := newStream("east", kindOfConfigMaps, m.source(), newStore(t))
			var err error
			s.target, err = s.store.OpenStream(t.Context(), "east", s.kind)
			require.NoError(t, err)
			_, err = s.pages(t.Context(), 1)
			assert.True(t, isLimit(err), err)
		})
	}
}

func TestTooManyResources(t *testing.T) {
	f, s := newFakeMember(t), newStore(t)
	f.resources = nil
	for n := range 20 {
		f.resources = append(f.resources, fmt.Sprintf("things%02d", n))
	}
	m, err := New("east", &rest.Config{Host: f.URL}, Everything, Dependencies{Store: s, Limiter: newLimiter(t, func(l *Limits) { l.Resources = 5 })})
	require.NoError(t, err)
	kinds, _, err := m.discover(t.Context())
	require.NoError(t, err)
	assert.Len(t, kinds, 5)
	health, _ := m.Status()
	assert.Equal(t, "of 20 resources, 5 are copied (--member-max-resources)", health.Limit)
}

func TestNamesOfResourcesAreThoseOfKubernetes(t *testing.T) {
	f := newFakeMember(t)
	f.resources = []string{"configmaps", "config/maps/..", `"}`, strings.Repeat("x", 64), "UPPER"}
	m, err := New("east", &rest.Config{Host: f.URL}, Everything, Dependencies{Store: newStore(t), Limiter: newLimiter(t, nil)})
	require.NoError(t, err)
	kinds, _, err := m.discover(t.Context())
	require.NoError(t, err)
	require.Len(t, kinds, 1)
	assert.Equal(t, configMaps, kinds[0].GroupVersionResource)
}

// TestAClusterWithTooManyObjects keeps what fits its limit, reports that, and copies again when the cluster has less.
func TestAClusterWithTooManyObjects(t *testing.T) {
	f, s := newFakeMember(t), newStore(t)
	f.put("a", "b")
	m, err := New("east", &rest.Config{Host: f.URL}, Everything, Dependencies{Store: s, Limiter: newLimiter(t, func(l *Limits) { l.Objects = 3 })})
	require.NoError(t, err)
	stream := newStream("east", kindOfConfigMaps, source{client: m.client, limiter: m.limiter, resource: configMaps}, s)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() { failed <- stream.copy(ctx) }()
	eventually(t, s, "a", "b")
	f.put("c")
	eventually(t, s, "a", "b", "c")
	f.put("d")
	require.True(t, isLimit(<-failed))
	assert.Equal(t, []string{"a", "b", "c"}, names(t, s))

	require.True(t, isLimit(stream.copy(ctx)), "it lists again, to no avail")
	f.remove("a")
	f.remove("b")
	require.True(t, isLimit(stream.copy(ctx)), "there was no room before what is gone was removed")
	assert.Equal(t, []string{"c"}, names(t, s))
	go func() { failed <- stream.copy(ctx) }()
	eventually(t, s, "c", "d")
	cancel()
	t.Log("the copy was cancelled:", <-failed)
}

func TestAClusterThatIsTooLarge(t *testing.T) {
	s := newStore(t)
	limiter := newLimiter(t, func(l *Limits) { l.Size.Set(1 << 20) })
	target, err := s.OpenStream(t.Context(), "east", kindOfConfigMaps)
	require.NoError(t, err)
	put := func(room store.Room, version int, data string) {
		t.Helper()
		o, err := NewObject("east", kindOfConfigMaps, fmt.Appendf(nil, `{"metadata":{"namespace":"default","name":"a","resourceVersion":"%d"},"data":{"x":%q}}`, version, data))
		require.NoError(t, err)
		require.NoError(t, s.Write(t.Context(), target, store.Batch{Changes: []store.Change{{Object: o}}, Room: room}))
	}
	put(store.RoomForAll, 1, strings.Repeat("x", 2<<20))
	u := &usage{cluster: "east", store: s, limits: &limiter.Limits}
	room, err := u.room(t.Context(), 1, 1<<20)
	assert.Equal(t, store.RoomForNothing, room)
	assert.ErrorContains(t, err, "the objects and documents of the cluster have more than 1Mi (--member-max-size)")
	put(room, 1, strings.Repeat("x", 2<<20))
	assert.Equal(t, []string{"a"}, names(t, s), "nothing has changed")
	put(room, 2, "small")
	assert.Empty(t, names(t, s), "no former state is served as the current one")
	assert.Equal(t, 1, target.LeftOut)
}

func TestLargeObjectsAreCopied(t *testing.T) {
	for name, path := range map[string]string{"in a list": "list", "in a watch": "watch"} {
		t.Run(name, func(t *testing.T) {
			var items []string
			for n := range 20 {
				size := 100
				if n%3 == 0 {
					size = 3 * smallObject
				}
				items = append(items, fmt.Sprintf(`{"metadata":{"name":"o%d"},"data":{"x":%q}}`, n, strings.Repeat("x", size)))
			}
			m := hostile(t, nil, func(w http.ResponseWriter, req *http.Request) {
				if req.URL.Query().Get("watch") == "" {
					fmt.Fprintf(w, `{"items":[%s],"metadata":{"resourceVersion":"7"}}`, strings.Join(items, " , "))
					return
				}
				for _, text := range items {
					fmt.Fprintf(w, `{"type":"ADDED","object":%s}`+"\n", text)
				}
			})
			seen := 0
			check := func(text []byte, i item) {
				assert.JSONEq(t, items[seen], string(text))
				assert.Equal(t, len(text) > smallObject, i.release != nil)
				seen++
				i.done()
			}
			if path == "list" {
				_, resourceVersion, count, err := m.source().page(t.Context(), "", func(i item) error { check(i.text, i); return nil })
				require.NoError(t, err)
				assert.Equal(t, "7", resourceVersion)
				assert.Equal(t, len(items), count)
			} else {
				require.NoError(t, m.source().watch(t.Context(), "1", false, func() {}, func(e event) error { check(e.Object, e.item); return nil }))
			}
			assert.Equal(t, len(items), seen)
			assert.Zero(t, m.limiter.large.count())
		})
	}
}

// TestAMemberThatFloodsWaitsForItself has one member take all that it may, beside another one.
func TestAMemberThatFloodsWaitsForItself(t *testing.T) {
	limiter := newLimiter(t, nil)
	greedy, other := limiter.forMember(), limiter.forMember()
	require.True(t, greedy.tryHold(greedy.share))
	assert.False(t, greedy.tryHold(1))
	assert.True(t, other.tryHold(other.share))
	for range writesAtOnce {
		greedy.writes <- struct{}{}
	}
	require.NoError(t, other.write(t.Context(), func() error { return nil }))
	permit, err := greedy.holdLarge(t.Context(), nil)
	require.NoError(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = greedy.holdLarge(ended, nil)
	require.Error(t, err)
	freed, err := other.holdLarge(t.Context(), nil)
	require.NoError(t, err)
	freed.release()
	permit.release()
	require.Error(t, greedy.write(ended, func() error { return errors.New("it does not run") }))
	require.NoError(t, greedy.rate.WaitN(t.Context(), greedy.rate.Burst()))
	assert.False(t, greedy.rate.AllowN(time.Now(), 10_000))
	assert.True(t, other.rate.AllowN(time.Now(), 10_000))
}
