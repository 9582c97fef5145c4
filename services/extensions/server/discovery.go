// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"net/http"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/responsewriter"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

const (
	discoveryCompleteSignal = "CustomResourceDiscoveryNotComplete"
	controllersHook         = "start-apiextensions-controllers"
)

// installRootDiscovery serves /apis. The CRD server leaves that to the server that usually delegates to it, and keeps only the aggregated
// form up to date. So the legacy form is derived from it. /apis returns 503 until it has every CustomResourceDefinition: a client must not
// take an incomplete list for the truth.
func installRootDiscovery(server *genericapiserver.GenericAPIServer) error {
	complete := make(chan struct{})
	if err := server.RegisterMuxAndDiscoveryCompleteSignal(discoveryCompleteSignal, complete); err != nil {
		return err
	}
	client, err := rest.UnversionedRESTClientFor(unversioned(server.LoopbackClientConfig))
	if err != nil {
		return err
	}
	err = server.AddPostStartHook("custom-resource-discovery-complete", func(hook genericapiserver.PostStartHookContext) error {
		defer close(complete)
		// The hook of the CRD server ends when its discovery is complete. Only its health check shows that.
		err := wait.PollUntilContextCancel(hook, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			err := client.Get().AbsPath("/readyz/poststarthook/" + controllersHook).Do(ctx).Error()
			return err == nil, nil
		})
		if hook.Err() != nil {
			return nil // to be stopped while waiting is no failure
		}
		return err
	})
	if err != nil {
		return err
	}
	all := server.AggregatedDiscoveryGroupManager
	wrapped := aggregated.WrapAggregatedDiscoveryToHandler(
		whenComplete(legacyDiscovery{all}), whenComplete(all), nil)
	server.Handler.GoRestfulContainer.Add(wrapped.GenerateWebService("/apis", metav1.APIGroupList{}))
	return nil
}

func unversioned(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	c.NegotiatedSerializer = apiextensionsapiserver.Codecs
	c.GroupVersion = &schema.GroupVersion{}
	return c
}

// whenComplete answers 503 until discovery is complete.
func whenComplete(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !genericapifilters.NoMuxAndDiscoveryIncompleteKey(req.Context()) {
			err := apierrors.NewServiceUnavailable("the custom resources are not yet known")
			err.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
			responsewriters.ErrorNegotiated(err, apiextensionsapiserver.Codecs, schema.GroupVersion{}, w, req)
			return
		}
		handler.ServeHTTP(w, req)
	})
}

// legacyDiscovery serves the legacy form of the aggregated document.
type legacyDiscovery struct {
	aggregated http.Handler
}

func (l legacyDiscovery) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	groups, err := l.groups(req)
	if err != nil {
		responsewriters.ErrorNegotiated(apierrors.NewInternalError(err), apiextensionsapiserver.Codecs, schema.GroupVersion{}, w, req)
		return
	}
	responsewriters.WriteObjectNegotiated(apiextensionsapiserver.Codecs, negotiation.DefaultEndpointRestrictions,
		schema.GroupVersion{}, w, req, http.StatusOK, groups, false)
}

func (l legacyDiscovery) groups(req *http.Request) (*metav1.APIGroupList, error) {
	internal := req.Clone(req.Context())
	internal.Header = http.Header{
		"Accept": {discovery.AcceptV2},
	}
	answer := responsewriter.NewInMemoryResponseWriter()
	l.aggregated.ServeHTTP(answer, internal)
	var list apidiscoveryv2.APIGroupDiscoveryList
	if err := json.Unmarshal(answer.Data(), &list); err != nil {
		return nil, err
	}
	groups, _, _ := discovery.SplitGroupsAndResources(list)
	return groups, nil
}
