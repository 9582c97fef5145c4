// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !kube1.36

package server

import (
	"k8s.io/apimachinery/pkg/runtime"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	controlplaneoptions "k8s.io/kubernetes/pkg/controlplane/apiserver/options"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"
)

// buildGeneric calls kube-apiserver's builder of what all API servers need.
func buildGeneric(o controlplaneoptions.CompletedOptions, schemes []*runtime.Scheme) (
	*genericapiserver.Config, informers.SharedInformerFactory, *serverstorage.DefaultStorageFactory, error,
) {
	return controlplaneapiserver.BuildGenericConfig(
		o, schemes, controlplane.DefaultAPIResourceConfigSource(), generatedopenapi.GetOpenAPIDefinitions, informerName())
}

// informerName returns the name of kube-apiserver's informers in their metrics. Only the first server of a process has these, which
// matters in tests.
func informerName() *cache.InformerName {
	name, err := cache.NewInformerName("kube-apiserver")
	if err != nil {
		return nil
	}
	return name
}
