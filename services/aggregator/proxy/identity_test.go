// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http/httpguts"

	"k8s.io/apiserver/pkg/audit"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"

	"github.com/tripod-k8s/tripod/base/hop/envelope"
	"github.com/tripod-k8s/tripod/base/hop/roundtrip"
	"github.com/tripod-k8s/tripod/services/aggregator/requestmemory"
)

// claims are what clients may try.
var claims = map[string]http.Header{
	"nothing claimed":     {},
	"plain":               {"X-Remote-User": {"root"}, "X-Remote-Group": {"system:masters"}},
	"uid and extra":       {"X-Remote-Uid": {"0"}, "X-Remote-Extra-Admin": {"yes"}},
	"lower case":          {"x-remote-user": {"root"}, "x-remote-group": {"system:masters"}},
	"underscores":         {"X_Remote_User": {"root"}, "X-Remote_Group": {"system:masters"}},
	"token":               {"Authorization": {"Bearer secret"}},
	"user dropped by hop": {"Connection": {"X-Remote-User, X-Remote-Group, X-Remote-Uid, X-Remote-Extra-Example.com%2fscopes"}},
	"envelope":            {"Tripod-Envelope": {"CgYKBHJvb3Q"}},
	"envelope, spelled":   {"tripod_envelope": {"CgYKBHJvb3Q"}},
	"envelope dropped":    {"Connection": {"Tripod-Envelope"}, "Tripod-Envelope": {"CgYKBHJvb3Q"}},
	"upgrade":             {"Connection": {"Upgrade, Tripod-Envelope"}, "Upgrade": {"websocket"}, "X-Remote-User": {"root"}},
}

func TestTheBackendSeesTheAuthenticatedUserAndNoOther(t *testing.T) {
	for name, claimed := range claims {
		for _, path := range []string{forObjects, forOthers} {
			t.Run(name+" at "+path, func(t *testing.T) {
				seen := make(chan http.Header, 1)
				server := front(t, jane, func(_ http.ResponseWriter, req *http.Request) { seen <- req.Header })
				expectJane(t, sendTo(t, server, path, claimed, seen))
			})
		}
	}
}

// expectJane expects headers that name jane, and no other user.
func expectJane(t *testing.T, got http.Header) {
	t.Helper()
	values := got[envelope.Header]
	require.Len(t, values, 1, "%d envelopes", len(values))
	e, err := envelope.Decode(values[0])
	require.NoError(t, err)
	if diff := cmp.Diff(jane, envelope.ToUser(e.GetUser())); diff != "" || e.GetSelf() {
		t.Errorf("user (-want +got):\n%s", diff)
	}
	if host, _, err := net.SplitHostPort(e.GetClientAddress()); err != nil || (host != "127.0.0.1" && host != "192.0.2.1") {
		t.Errorf("address of the client is %q", e.GetClientAddress())
	}
	delete(got, envelope.Header)
	assert.Empty(t, identityOf(got), "other identities arrive")
}

func TestAnAggregatedServerSeesTheAuthenticatedUserAndNoOther(t *testing.T) {
	want := map[string][]string{
		"x-remote-user":                       {"jane"},
		"x-remote-uid":                        {"42"},
		"x-remote-group":                      {"devs", "system:authenticated"},
		"x-remote-extra-example.com%2fscopes": {"a", "b"},
	}
	for name, claimed := range claims {
		t.Run(name, func(t *testing.T) {
			seen := make(chan http.Header, 1)
			front := frontOfAggregated(t, func(_ http.ResponseWriter, req *http.Request) { seen <- req.Header })
			got := sendTo(t, front, forObjects, claimed, seen)
			assert.Empty(t, cmp.Diff(want, identityOf(got)), "identity headers")
		})
	}
}

// identityOf returns the headers by which a client could be taken for a user, in lower case: HTTP does not keep it.
func identityOf(h http.Header) map[string][]string {
	identity := map[string][]string{}
	for name, values := range h {
		spelled := strings.ReplaceAll(strings.ToLower(name), "_", "-")
		if strings.HasPrefix(spelled, "x-remote-") || spelled == "authorization" || spelled == "tripod-envelope" {
			identity[strings.ToLower(name)] = values
		}
	}
	return identity
}

func TestTheBackendLearnsWhatAuthenticationFound(t *testing.T) {
	seen := make(chan http.Header, 1)
	back := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { seen <- req.Header }))
	defer back.Close()
	forwarder := NewForwarder("core", toServer{back}, requestmemory.New(0), NewEndings(), aggregatorscheme.Codecs, nil)
	authenticated := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		warning.AddWarning(req.Context(), "", "old token")
		audit.AddAuditAnnotation(req.Context(), "example.com/token", "old")
		forwarder.ServeHTTP(w, req.WithContext(request.WithUser(req.Context(), jane)))
	})
	server := httptest.NewServer(genericapifilters.WithAuditInit(WithWarnings(authenticated)))
	defer server.Close()
	got := sendTo(t, server, forObjects, http.Header{"Audit-Id": {"7"}}, seen)
	e, err := envelope.Decode(got.Get(envelope.Header))
	require.NoError(t, err)
	if e.GetAuditAnnotations()["example.com/token"] != "old" || len(e.GetWarnings()) != 1 || e.GetWarnings()[0].GetText() != "old token" {
		t.Errorf("envelope is %v", e)
	}
	assert.Equal(t, "7", got.Get("Audit-Id"), "Audit-Id")
}

func TestImpersonationIsLeftToTheBackend(t *testing.T) {
	seen := make(chan http.Header, 1)
	server := front(t, jane, func(_ http.ResponseWriter, req *http.Request) { seen <- req.Header })
	assert.Equal(t, "joe", sendTo(t, server, "", http.Header{"Impersonate-User": {"joe"}}, seen).Get("Impersonate-User"))
}

func TestARequestWithoutAUserIsNotForwarded(t *testing.T) {
	server := front(t, nil, func(http.ResponseWriter, *http.Request) { t.Error("it was forwarded") })
	resp, err := http.Get(server.URL)
	require.NoError(t, err)
	defer resp.Body.Close()
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode, "answer is %s", resp.Status)
}

// FuzzHeaders looks for a header by which the backend sees another user.
func FuzzHeaders(f *testing.F) {
	for _, headers := range claims {
		for name, values := range headers {
			f.Add(name, values[0], "Connection", name)
		}
	}
	seen := make(chan http.Header, 1)
	transport := roundtrip.Func(func(req *http.Request) (*http.Response, error) {
		seen <- req.Header
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
	})
	forwarder := NewForwarder("core", transport, requestmemory.New(0), NewEndings(), aggregatorscheme.Codecs, nil)
	f.Fuzz(func(t *testing.T, name1, value1, name2, value2 string) {
		for _, path := range []string{forObjects, forOthers} {
			req := httptest.NewRequest(http.MethodGet, path, nil)
			req = classified(t, req.WithContext(request.WithUser(req.Context(), jane)))
			for name, value := range map[string]string{name1: value1, name2: value2} {
				if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
					return // refused by the HTTP server
				}
				req.Header.Add(name, value)
			}
			w := httptest.NewRecorder()
			forwarder.ServeHTTP(w, req)
			select {
			case got := <-seen:
				expectJane(t, got)
			default:
				if w.Code == http.StatusOK {
					t.Error("it was not forwarded")
				}
			}
		}
	})
}

func FuzzHeadersToAggregated(f *testing.F) {
	f.Add("X-Remote-User", "root")
	f.Add("x_remote_group", "system:masters")
	f.Add("X-Remote-Extra-Key", "v")
	f.Fuzz(func(t *testing.T, name, value string) {
		req := httptest.NewRequest(http.MethodGet, "/", nil)
		req.Header[name] = []string{value}
		req.Header.Add(name, value)
		setUser(req, jane)
		for got, values := range identityOf(req.Header) {
			switch http.CanonicalHeaderKey(got) {
			case "X-Remote-User", "X-Remote-Uid":
				if len(values) != 1 || values[0] != "jane" && values[0] != "42" {
					t.Errorf("%s is %q", got, values)
				}
			case "X-Remote-Group":
				assert.Len(t, values, 2, "groups")
			default:
				if !strings.HasPrefix(strings.ToLower(got), "x-remote-extra-example.com") || len(values) != 2 {
					t.Errorf("%s: %q", got, values)
				}
			}
		}
	})
}
