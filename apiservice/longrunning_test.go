// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/filters"
)

// lastingService returns a service with two long-running subresources: moments/tail in v1 and v2, and hands/turn in v2.
func lastingService() *Service {
	s := serviceOf(moments, true)
	tail := moments
	tail.Name, tail.LongRunning = "moments/tail", true
	s.Groups[0].Versions = []string{"v1", "v2"}
	s.Groups[0].Resources = append(s.Groups[0].Resources, tail, Objects[*moment]{
		Name: "hands", Versions: []string{"v2"}, LongRunning: []string{"turn"},
		Subresources: map[string]func(*Environment) (rest.Storage, error){"turn": moments.New, "read": moments.New},
	})
	return s
}

func TestOnlySubresourcesLast(t *testing.T) {
	resource := moments
	resource.LongRunning = true
	for _, name := range []string{"moments", "moments/", "/tail", "moments/tail/more"} {
		resource.Name = name
		wants(t, parse(t, serviceOf(resource, true)), "resource "+name+": LongRunning is for subresources")
	}
	resource.Name = "moments/tail"
	wants(t, parse(t, serviceOf(resource, true)), "")
	wants(t, parse(t, serviceOf(Objects[*moment]{Name: "moments", LongRunning: []string{"tail"}}, true)),
		`resource moments: LongRunning names "tail", which is not one of Subresources`)
}

func TestAggregatorsLearnWhatLasts(t *testing.T) {
	c := &config{options: &completed{options: &options{service: lastingService()}}}
	c.served = []string{
		"clock.example.com/v1 moments", "clock.example.com/v1 moments/tail", "clock.example.com/v2 hands", "clock.example.com/v2 hands/turn",
		"clock.example.com/v2 hands/read", // --runtime-config disables moments in v2
	}
	catalog, err := (&server{config: c}).catalog()
	require.NoError(t, err)
	require.Len(t, catalog.GetGroupVersions(), 2)
	assert.Equal(t, []string{"moments/tail"}, catalog.GetGroupVersions()[0].GetLongRunning())
	assert.Equal(t, []string{"hands/turn"}, catalog.GetGroupVersions()[1].GetLongRunning())
}

func TestWhatIsDeclaredLasts(t *testing.T) {
	config := genericapiserver.NewConfig(serializer.NewCodecFactory(runtime.NewScheme()))
	config.LongRunningFunc = filters.BasicLongRunningRequestCheck(sets.NewString("watch", "proxy"), sets.NewString("log"))
	lastingService().declared().applyTo(config)
	infos := &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	const group = "/apis/clock.example.com"
	for path, want := range map[string]bool{
		group + "/v1/moments/now/tail": true, group + "/v2/moments/now/tail": true, group + "/v1/namespaces/a/moments/now/tail/b": true,
		group + "/v2/hands/left/turn": true, group + "/v1/moments/now/log": true, group + "/v1/moments?watch=true": true,
		group + "/v1/hands/left/turn": false, group + "/v2/hands/left/read": false, group + "/v1/moments/now": false, group + "/v1/moments": false,
		"/apis/example.com/v1/moments/now/tail": false, "/api/v1/moments/now/tail": false, "/tail": false,
	} {
		req := httptest.NewRequest(http.MethodGet, path, nil)
		info, err := infos.NewRequestInfo(req)
		require.NoError(t, err)
		assert.Equal(t, want, config.LongRunningFunc(req, info), path)
	}
}

func TestWhatLastsEndsWhenTheServiceStops(t *testing.T) {
	stopping, running := make(chan struct{}), make(chan context.Context)
	handler := lastingService().declared().end(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		running <- req.Context()
		<-req.Context().Done()
	}), stopping)
	serve := func(subresource string) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(request.WithRequestInfo(t.Context(), &request.RequestInfo{
			IsResourceRequest: true, APIGroup: "clock.example.com", APIVersion: "v1", Resource: "moments", Subresource: subresource,
		}))
		go handler.ServeHTTP(nil, httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx))
		return <-running, cancel
	}
	tail, cancelTail := serve("tail")
	gone, cancelGone := serve("tail")
	other, cancelOther := serve("status")
	defer cancelTail()
	defer cancelOther()
	cancelGone()
	<-gone.Done()
	assert.ErrorIs(t, context.Cause(gone), context.Canceled)
	require.NoError(t, tail.Err())
	close(stopping)
	<-tail.Done()
	assert.ErrorIs(t, context.Cause(tail), errStopping)
	assert.NoError(t, other.Err(), "the server waits for all other requests")
}
