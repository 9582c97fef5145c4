// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/base/hop/roundtrip"
	"github.com/tripod-k8s/tripod/base/hop/trust"
)

var errRefused = &net.OpError{Op: "dial", Err: errors.New("connection refused")}

// servers answers requests by host, and records which host got which request.
type servers struct {
	answers map[string]error
	asked   []string
	bodies  []string
	// before runs before each request.
	before func()
}

func (s *servers) RoundTrip(req *http.Request) (*http.Response, error) {
	if s.before != nil {
		s.before()
	}
	s.asked = append(s.asked, req.URL.Hostname())
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		s.bodies = append(s.bodies, string(body))
	}
	if req.Host != req.URL.Host {
		return nil, errors.New("wrong Host header: " + req.Host)
	}
	if err := s.answers[req.URL.Hostname()]; err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// testLink is a link with a transport to its servers.
type testLink struct {
	http.RoundTripper
	link *Link
}

func newTestLink(next http.RoundTripper, hosts ...string) testLink {
	link := New("core", serversOf(hosts...), trust.Options{})
	return testLink{RoundTripper: link.over(next, Wait), link: link}
}

func serversOf(hosts ...string) []addresses.Location {
	var list []addresses.Location
	for _, host := range hosts {
		list = append(list, addresses.Location{Host: host, Port: "1"})
	}
	return list
}

func send(ctx context.Context, t *testing.T, f http.RoundTripper, body io.Reader) error {
	t.Helper()
	return sendBy(ctx, t, f, http.MethodPost, body)
}

func sendBy(ctx context.Context, t *testing.T, f http.RoundTripper, method string, body io.Reader) error {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "https://a/apis", body)
	require.NoError(t, err)
	response, err := f.RoundTrip(req)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

func TestFailover(t *testing.T) {
	broken := errors.New("connection reset")
	tests := []struct {
		name    string
		method  string // POST if empty
		answers map[string]error
		body    io.Reader
		asked   string
		bodies  string
		err     error
	}{
		{name: "the first server answers", asked: "a"},
		{
			name:    "the next server is asked when no connection can be made, with the same body",
			answers: map[string]error{"a": errRefused}, body: strings.NewReader("body"),
			asked: "a b", bodies: "body body",
		},
		{
			name:    "a request that may have arrived is not repeated",
			answers: map[string]error{"a": broken}, asked: "a", err: broken,
		},
		{
			name: "what only reads is repeated", method: http.MethodGet,
			answers: map[string]error{"a": broken}, asked: "a b",
		},
		{
			name: "what only reads is not repeated for ever", method: http.MethodGet,
			answers: map[string]error{"a": broken, "b": broken}, asked: "a b", err: broken,
		},
		{
			name:    "a body that cannot be read again is not repeated",
			answers: map[string]error{"a": errRefused}, body: io.MultiReader(strings.NewReader("body")),
			asked: "a", bodies: "body", err: errRefused,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := &servers{answers: test.answers}
			err := sendBy(t.Context(), t, newTestLink(s, "a", "b"), cmp.Or(test.method, http.MethodPost), test.body)
			assert.ErrorIs(t, err, test.err)
			assert.Equal(t, test.asked, strings.Join(s.asked, " "), "asked")
			assert.Equal(t, test.bodies, strings.Join(s.bodies, " "), "bodies")
		})
	}
}

func TestFailoverKeepsToTheServerThatAnswered(t *testing.T) {
	s := &servers{answers: map[string]error{"a": errRefused}}
	f := newTestLink(s, "a", "b")
	for range 2 {
		require.NoError(t, send(t.Context(), t, f, nil))
	}
	if got, want := strings.Join(s.asked, " "), "a b b"; got != want {
		t.Errorf("asked %q, want %q", got, want)
	}
}

func TestFailoverWaitsForAServer(t *testing.T) {
	s := &servers{answers: map[string]error{"a": errRefused, "b": errRefused}}
	f := newTestLink(s, "a", "b")
	s.before = func() {
		if f.link.Check(nil) == nil {
			t.Error("healthy before any server answered")
		}
		if len(s.asked) == 4 {
			delete(s.answers, "a")
		}
	}
	require.NoError(t, send(t.Context(), t, f, bytes.NewBufferString("body")))
	if got, want := strings.Join(s.asked, " "), "a b a b a"; got != want {
		t.Errorf("asked %q, want %q", got, want)
	}
	assert.NoError(t, f.link.Check(nil), "unhealthy after a server answered")
}

func TestFailoverEndsWithTheContext(t *testing.T) {
	s := &servers{answers: map[string]error{"a": errRefused}}
	ctx, cancel := context.WithCancel(t.Context())
	s.before = cancel
	err := send(ctx, t, newTestLink(s, "a"), nil)
	assert.ErrorIs(t, err, errRefused, "got %v, want the reason why no server can be reached", err)
}

func TestRequestsThatFailDoNotWait(t *testing.T) {
	s := &servers{answers: map[string]error{"a": errRefused, "b": errRefused}}
	link := New("aggregator", serversOf("a", "b"), trust.Options{})
	for _, step := range []struct {
		name  string
		hosts []string
		asked string
	}{
		{name: "servers that cannot be reached", hosts: []string{"a", "b"}, asked: "a b"},
		{name: "no servers"},
	} {
		link.SetServers(serversOf(step.hosts...))
		s.asked = nil
		if err := send(t.Context(), t, link.over(s, Fail), nil); !IsUnreachable(err) {
			t.Errorf("%s: got %v, want an error that says that nobody can be reached", step.name, err)
		}
		assert.Equal(t, step.asked, strings.Join(s.asked, " "), "%s: asked", step.name)
	}
}

func TestFailoverFollowsTheServers(t *testing.T) {
	s := &servers{answers: map[string]error{"a": errRefused}}
	f := newTestLink(s, "a", "b")
	for _, step := range []struct {
		name  string
		hosts []string // the servers from this request on
		asked string
	}{
		{name: "at first", hosts: []string{"a", "b"}, asked: "a b"},
		{name: "the one that answered stays the first", hosts: []string{"c", "b"}, asked: "b"},
		{name: "the one that answered is gone", hosts: []string{"a", "c"}, asked: "a c"},
		{name: "in another order", hosts: []string{"b", "c"}, asked: "c"},
	} {
		f.link.SetServers(serversOf(step.hosts...))
		s.asked = nil
		require.NoError(t, send(t.Context(), t, f, nil))
		assert.Equal(t, step.asked, strings.Join(s.asked, " "), "%s: asked", step.name)
	}
}

func TestFailoverFindsServersThatAppearWhileItWaits(t *testing.T) {
	s := &servers{answers: map[string]error{"a": errRefused}}
	f := newTestLink(s, "a")
	s.before = func() { f.link.SetServers(serversOf("b")) }
	require.NoError(t, send(t.Context(), t, f, nil))
	if got, want := strings.Join(s.asked, " "), "a b"; got != want {
		t.Errorf("asked %q, want %q", got, want)
	}
}

func TestAServerThatDoesNotServeIsLeft(t *testing.T) {
	for name, test := range map[string]struct {
		answer func(context.CancelCauseFunc) (*http.Response, error)
	}{
		"because it says so": {func(context.CancelCauseFunc) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody}, nil
		}},
		"because it says nothing": {func(cancel context.CancelCauseFunc) (*http.Response, error) {
			cancel(ErrSilent)
			return nil, context.Canceled
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			ctx, cancel := context.WithCancelCause(t.Context())
			f := newTestLink(roundtrip.Func(func(req *http.Request) (*http.Response, error) {
				asked = append(asked, req.URL.Hostname())
				if req.URL.Hostname() == "a" {
					return test.answer(cancel)
				}
				return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
			}), "a", "b")
			_ = send(ctx, t, f, nil) // its outcome does not matter
			assert.NoError(t, send(t.Context(), t, f, nil))
			if got, want := strings.Join(asked, " "), "a b"; got != want {
				t.Errorf("asked %q, want %q", got, want)
			}
		})
	}
}

func TestAFollowedReplicaIsLeftForItsErrors(t *testing.T) {
	for status, asked := range map[int]string{
		http.StatusOK: "a a", http.StatusNotFound: "a a", http.StatusTooManyRequests: "a b", http.StatusInternalServerError: "a b", http.StatusBadGateway: "a b",
	} {
		var got []string
		f := newTestLink(roundtrip.Func(func(req *http.Request) (*http.Response, error) {
			got = append(got, req.URL.Hostname())
			return &http.Response{StatusCode: status, Body: http.NoBody}, nil
		}), "a", "b")
		f.link.follows.Store(true)
		for range 2 {
			require.NoError(t, sendBy(t.Context(), t, f, http.MethodGet, nil))
		}
		assert.Equal(t, asked, strings.Join(got, " "), "after %d", status)
	}
}

func TestReplicasThatAreNotReadyComeLast(t *testing.T) {
	l := New("core", serversOf("a", "b", "c"), trust.Options{})
	l.follows.Store(true)
	for _, step := range []struct{ unhealthy, want string }{{"", "a b c"}, {"a", "b c a"}, {"a b", "c a b"}, {"a b c", "a b c"}, {"c", "a b c"}} {
		for _, host := range []string{"a", "b", "c"} {
			l.replicas.probed(host+":1", false, strings.Contains(step.unhealthy, host))
		}
		var got []string
		for _, server := range l.inOrder() {
			got = append(got, strings.TrimSuffix(server, ":1"))
		}
		assert.Equal(t, step.want, strings.Join(got, " "), "while %q are not ready", step.unhealthy)
	}
}
