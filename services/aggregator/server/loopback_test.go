// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"

	"github.com/tripod-k8s/tripod/internal/hop/trust"
	"github.com/tripod-k8s/tripod/internal/hop/trust/trusttest"
	"github.com/tripod-k8s/tripod/services/aggregator/apis/discovery"
)

func TestAggregatedServersSeeKubeAPIServerInPlaceOfServices(t *testing.T) {
	for _, test := range []struct {
		sender user.Info
		want   string
	}{
		{trusttest.Backend(t, trust.Core), "system:apiserver"},
		{&user.DefaultInfo{Name: trust.Core}, trust.Core},
		{&user.DefaultInfo{Name: "jane"}, "jane"},
	} {
		req := httptest.NewRequestWithContext(request.WithUser(t.Context(), test.sender), http.MethodGet, "/", nil)
		if seen, _ := request.UserFrom(asKubeAPIServer(req).Context()); seen.GetName() != test.want {
			t.Errorf("%v is seen as %v, want %s", test.sender, seen, test.want)
		}
	}
}

func TestServicesAreNotToldWhatIsNotWhole(t *testing.T) {
	s := &Server{Config: &Config{
		generic: genericapiserver.NewRecommendedConfig(aggregatorscheme.Codecs),
		core:    &backend{discovery: &discovery.Source{}}, extensions: &backend{discovery: &discovery.Source{}},
	}}
	handler := s.untilSeen(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, test := range []struct {
		sender user.Info
		want   int
	}{
		{trusttest.Backend(t, trust.Core), http.StatusServiceUnavailable},
		{&user.DefaultInfo{Name: trust.Core}, http.StatusOK},
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
