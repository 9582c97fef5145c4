// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"

	"github.com/tripod-k8s/tripod/base/hop/connectionstest"
	"github.com/tripod-k8s/tripod/base/hop/trust"
	"github.com/tripod-k8s/tripod/base/hop/trust/trusttest"
	"github.com/tripod-k8s/tripod/services/aggregator/apis/discovery"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream"
	"github.com/tripod-k8s/tripod/services/list"
)

func TestAggregatedServersSeeKubeAPIServerInPlaceOfServices(t *testing.T) {
	const webhook = "/apis/a/v1/reviews"
	calls := newWebhookCalls(informers.NewSharedInformerFactory(fake.NewClientset(), 0), &manifestWebhooks{}, noConversions)
	require.NoError(t, calls.validating.Informer().GetStore().Add(webhooks(atService("default", "kubernetes", webhook, nil))))
	for _, test := range []struct {
		sender user.Info
		want   string
	}{
		{trusttest.Backend(t, trust.UserOf(list.Core)), "system:apiserver"},
		{trusttest.Backend(t, trust.UserOf("wardle")), "system:tripod:wardle"},
		{&user.DefaultInfo{Name: trust.UserOf(list.Core)}, trust.UserOf(list.Core)},
		{&user.DefaultInfo{Name: "jane"}, "jane"},
	} {
		req := httptest.NewRequestWithContext(request.WithUser(t.Context(), test.sender), http.MethodGet, "/", nil)
		if seen, _ := request.UserFrom(calls.asKubeAPIServer(req).Context()); seen.GetName() != test.want {
			t.Errorf("%v is seen as %v, want %s", test.sender, seen, test.want)
		}
	}
	for method, want := range map[string]string{http.MethodPost: "system:apiserver", http.MethodGet: "system:tripod:wardle"} {
		ctx := request.WithUser(t.Context(), trusttest.Backend(t, trust.UserOf("wardle")))
		seen, _ := request.UserFrom(calls.asKubeAPIServer(httptest.NewRequestWithContext(ctx, method, webhook, nil)).Context())
		assert.Equal(t, want, seen.GetName(), "%s to a webhook is of", method)
	}
}

func TestServicesDoNotReceivePartialState(t *testing.T) {
	s := &Server{Config: &Config{
		generic: genericapiserver.NewRecommendedConfig(aggregatorscheme.Codecs),
	}}
	pki := connectionstest.NewPKI(t)
	for _, name := range []string{"core", "extensions"} {
		way, err := upstream.New(upstream.Config{Name: name, Trust: trust.Options{CAFile: pki.CAFile, CertFile: pki.CertFile, KeyFile: pki.KeyFile}})
		require.NoError(t, err)
		s.backends = append(s.backends, &backend{Backend: way, discovery: &discovery.Source{}})
	}
	s.core, s.extensions = s.backends[0], s.backends[1]
	handler := s.untilDiscovered(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, test := range []struct {
		sender user.Info
		want   int
	}{
		{trusttest.Backend(t, trust.UserOf(list.Core)), http.StatusServiceUnavailable},
		{trusttest.Backend(t, trust.UserOf("wardle")), http.StatusServiceUnavailable},
		{&user.DefaultInfo{Name: trust.UserOf(list.Core)}, http.StatusOK},
		{&user.DefaultInfo{Name: "jane"}, http.StatusOK},
		{nil, http.StatusOK},
	} {
		ctx := t.Context()
		if test.sender != nil {
			ctx = request.WithUser(ctx, test.sender)
		}
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequestWithContext(ctx, http.MethodGet, "/apis", nil))
		assert.Equal(t, test.want, recorder.Code, "%v", test.sender)
	}
}
