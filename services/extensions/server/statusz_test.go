// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	zpagesfeatures "k8s.io/component-base/zpages/features"
)

func TestStatuszNamesThePartition(t *testing.T) {
	for _, enabled := range []bool{true, false} {
		featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, zpagesfeatures.ComponentStatusz, enabled)
		config := genericapiserver.NewConfig(apiextensionsapiserver.Codecs)
		config.LoopbackClientConfig = &rest.Config{}
		config.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
		config.ExternalAddress = "127.0.0.1:443"
		server, err := config.Complete(nil).New("test", genericapiserver.NewEmptyDelegate())
		require.NoError(t, err)
		server.PrepareRun()
		nameStatus(server, "extensions-big")
		get := func(accept string) *httptest.ResponseRecorder {
			recorder := httptest.NewRecorder()
			req := httptest.NewRequest(http.MethodGet, "/statusz", nil)
			req.Header.Set("Accept", accept)
			server.Handler.NonGoRestfulMux.ServeHTTP(recorder, req)
			return recorder
		}
		if !enabled {
			assert.Equal(t, http.StatusNotFound, get("").Code)
			continue
		}
		text := get("").Body.String()
		assert.True(t, strings.HasPrefix(text, "\nextensions-big statusz\n"), text)
		assert.Contains(t, text, "/readyz")
		structured := get("application/json;as=Statusz;v=v1beta1;g=config.k8s.io").Body.String()
		assert.Contains(t, structured, `"name":"extensions-big"`)
	}
}
