// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/path"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server"

	"github.com/tripod-k8s/tripod/base/hop/trust"
)

// gated is a server whose policy allows system:masters everything and others nothing. The header Sender names the group
// of the sender, who is unknown without.
type gated struct {
	http.Handler
	synced atomic.Bool
}

func newGated(t *testing.T) *gated {
	t.Helper()
	g := &gated{}
	p := &Policy{
		authorizer: authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup),
		synced:     g.synced.Load,
	}
	probes, err := path.NewAuthorizer([]string{"/readyz"})
	require.NoError(t, err)
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	metav1.AddMetaToScheme(scheme) //nolint:errcheck // the types are there
	config := &server.Config{
		Serializer:          serializer.NewCodecFactory(scheme),
		RequestInfoResolver: &request.RequestInfoFactory{APIPrefixes: sets.NewString("apis")},
	}
	config.Authorization.Authorizer = trust.Around([]trust.Unconditional{p.UntilSynced(probes)}, p)
	config.Authentication.Authenticator = authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		group := req.Header.Get("Sender")
		req.Header.Del("Sender") // as some authenticators do
		return &authenticator.Response{User: &user.DefaultInfo{Name: "someone", Groups: []string{group}}}, group != "", nil
	})
	chain := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if sender := req.Header.Get("Sender"); sender != "" {
			w.WriteHeader(http.StatusOK)
			return
		}
		w.WriteHeader(http.StatusUnauthorized)
	})
	g.Handler = p.Gate(chain, config)
	return g
}

func TestGate(t *testing.T) {
	for _, tc := range []struct {
		name   string
		synced bool
		path   string
		header http.Header
		want   int
	}{
		{name: "users wait", path: "/apis/example.com/v1/widgets", header: http.Header{"Sender": {"users"}}, want: http.StatusServiceUnavailable},
		{name: "once synced they do not", synced: true, path: "/apis/example.com/v1/widgets", header: http.Header{"Sender": {"users"}}, want: http.StatusOK},
		{name: "system:masters does not", path: "/apis/example.com/v1/widgets", header: http.Header{"Sender": {user.SystemPrivilegedGroup}}, want: http.StatusOK},
		{
			name: "but has to for whom it impersonates", path: "/apis/example.com/v1/widgets",
			header: http.Header{"Sender": {user.SystemPrivilegedGroup}, "Impersonate-User": {"jane"}}, want: http.StatusServiceUnavailable,
		},
		{name: "probes do not wait", path: "/readyz", header: http.Header{"Sender": {"users"}}, want: http.StatusOK},
		{name: "the unknown get 401", path: "/apis/example.com/v1/widgets", want: http.StatusUnauthorized},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newGated(t)
			g.synced.Store(tc.synced)
			req := httptest.NewRequest(http.MethodGet, tc.path, nil)
			req.Header = tc.header
			if req.Header == nil {
				req.Header = http.Header{}
			}
			w := httptest.NewRecorder()
			g.ServeHTTP(w, req)
			require.Equal(t, tc.want, w.Code, "answer is %d, want %d: %s", w.Code, tc.want, w.Body)
			if w.Code == http.StatusServiceUnavailable {
				expectRetriable(t, w)
			}
		})
	}
}

func expectRetriable(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	var status metav1.Status
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &status))
	if status.Kind != "Status" || status.Reason != metav1.StatusReasonServiceUnavailable || w.Header().Get("Retry-After") != "1" {
		t.Errorf("got %v, Retry-After %q", status, w.Header().Get("Retry-After"))
	}
}
