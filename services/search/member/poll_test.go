// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// runStream copies the config maps of a member, which are listed all the time if they cannot be watched.
func runStream(t *testing.T, f *fakeMember, to *store.Store) *stream {
	t.Helper()
	m, err := New("east", &rest.Config{Host: f.URL}, Everything, Dependencies{Store: to, Limiter: newLimiter(t, nil)})
	require.NoError(t, err)
	kind := streams.Kind{GroupVersionResource: configMaps, Name: "ConfigMap", Namespaced: true}
	s := newStream("east", kind, source{client: m.client, limiter: m.limiter, resource: configMaps}, to)
	s.listInterval = 1100 * time.Millisecond // less counts as a failure
	ctx, cancel := contextFor(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return s
}

func isWatch(query url.Values) bool    { return query.Get("watch") == "true" }
func isStreamed(query url.Values) bool { return query.Get("sendInitialEvents") == "true" }

// TestAPIServersThatAreNoKubeAPIServer holds that what can be listed is copied, and that changes arrive.
func TestAPIServersThatAreNoKubeAPIServer(t *testing.T) {
	refuses := func(which func(url.Values) bool, code int) func(http.ResponseWriter, url.Values) bool {
		return func(w http.ResponseWriter, query url.Values) bool {
			if which(query) {
				fail(w, code, "")
			}
			return which(query)
		}
	}
	for name, test := range map[string]struct {
		odd    func(http.ResponseWriter, url.Values) bool
		reason string
	}{
		"no watches":                {refuses(isWatch, http.StatusMethodNotAllowed), notWatched},
		"no right to watch":         {refuses(isWatch, http.StatusForbidden), notWatched},
		"watches fail":              {refuses(isWatch, http.StatusInternalServerError), notWatched},
		"streaming lists fail":      {refuses(isStreamed, http.StatusInternalServerError), ""},
		"streaming lists are cut":   {func(_ http.ResponseWriter, query url.Values) bool { return isStreamed(query) }, ""},
		"streaming lists are empty": {refuses(isStreamed, http.StatusOK), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, to := newFakeMember(t), newStore(t)
			f.odd = test.odd
			f.put("a", "b", "c")
			s := runStream(t, f, to)
			eventually(t, to, "a", "b", "c")
			f.put("d")
			f.remove("b")
			eventually(t, to, "a", "c", "d")
			if test.reason != "" {
				require.Eventually(t, func() bool { return s.Status().Reason == test.reason && s.Status().Phase == Syncing }, time.Minute, time.Millisecond)
			}
		})
	}
}

// TestObjectsWithoutVersions holds that an object without uid and resourceVersion is written when its text changes, and only then.
func TestObjectsWithoutVersions(t *testing.T) {
	f, to := newFakeMember(t), newStore(t)
	text, lists := "first", 0
	f.odd = func(w http.ResponseWriter, query url.Values) bool {
		if isWatch(query) {
			fail(w, http.StatusMethodNotAllowed, "")
			return true
		}
		lists++
		fmt.Fprintf(w, `{"metadata": {}, "items": [{"metadata": {"name": "a", "namespace": "default"}, "data": {"text": %q}}]}`, text)
		return true
	}
	runStream(t, f, to)
	stored := func() string {
		found, err := to.Get(t.Context(), "east", configMaps, "default", "a")
		if err != nil {
			return ""
		}
		return string(found.JSON)
	}
	has := func(text string) func() bool { return func() bool { return strings.Contains(stored(), text) } }
	listsAgain := func() {
		var before int
		f.do(func() { before = lists })
		require.Eventually(t, func() bool {
			var now int
			f.do(func() { now = lists })
			return now > before+1
		}, time.Minute, 10*time.Millisecond)
	}
	require.Eventually(t, has("first"), time.Minute, 10*time.Millisecond)
	before := stored()
	listsAgain()
	assert.Equal(t, before, stored(), "its resourceVersion in search counts the changes")
	f.do(func() { text = "second" })
	require.Eventually(t, has("second"), time.Minute, 10*time.Millisecond)
}

// TestAMemberThatEndsConnectionsGetsFew holds that the connections to one member are bounded.
func TestAMemberThatEndsConnectionsGetsFew(t *testing.T) {
	limiter := newLimiter(t, func(l *Limits) { l.Resources = 1 }).forMember()
	for range 1 + spareDials {
		require.NoError(t, limiter.admitDial())
		require.NoError(t, limiter.admitDial(), "one that fails does not count")
		limiter.dialed()
	}
	assert.ErrorContains(t, limiter.admitDial(), "ends connections")
}
