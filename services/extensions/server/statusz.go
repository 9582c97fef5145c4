// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"slices"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/statusz"
)

// nameStatus has /statusz begin with the name of the service. Every API server calls itself "apiserver" there, so the answers of partitions
// would look the same. The server has all its paths, and does not serve yet.
func nameStatus(server *genericapiserver.GenericAPIServer, name string) {
	mux := server.Handler.NonGoRestfulMux
	if !slices.Contains(mux.ListedPaths(), statusz.DefaultStatuszPath) {
		return // the feature gate ComponentStatusz is off
	}
	mux.Unregister(statusz.DefaultStatuszPath)
	statusz.Install(mux, name, statusz.NewRegistry(server.EffectiveVersion, statusz.WithListedPaths(server.ListedPaths())))
}
