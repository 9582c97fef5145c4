// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"slices"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/kubeapiserver/authorizer/modes"

	"github.com/tripod-k8s/tripod/services/shared/policy"
)

// applyGate has core answer 503 while its authorizers do not know all objects yet. kube-apiserver answers 403 meanwhile, but balancers
// send it no requests before it is ready. An aggregator does if no replica is ready, as when etcd was away.
func applyGate(config *genericapiserver.Config, factory informers.SharedInformerFactory, authorization []string) {
	build, all := config.BuildHandlerChainFunc, deciding(factory, authorization)
	synced := policy.Once(func() bool { return !slices.ContainsFunc(all, func(is cache.InformerSynced) bool { return !is() }) })
	config.BuildHandlerChainFunc = func(handler http.Handler, c *genericapiserver.Config) http.Handler {
		return policy.Gate(build(handler, c), c, synced)
	}
}

// deciding returns the informers that authorization modes decide by. The authorizers have asked for the same ones
// (k8s.io/kubernetes/pkg/kubeapiserver/authorizer).
func deciding(factory informers.SharedInformerFactory, authorization []string) []cache.InformerSynced {
	var all []cache.InformerSynced
	if slices.Contains(authorization, modes.ModeRBAC) {
		rbac := factory.Rbac().V1()
		all = append(all, rbac.Roles().Informer().HasSynced, rbac.RoleBindings().Informer().HasSynced,
			rbac.ClusterRoles().Informer().HasSynced, rbac.ClusterRoleBindings().Informer().HasSynced)
	}
	if slices.Contains(authorization, modes.ModeNode) {
		core := factory.Core().V1()
		all = append(all, core.Nodes().Informer().HasSynced, core.Pods().Informer().HasSynced,
			core.PersistentVolumes().Informer().HasSynced, factory.Storage().V1().VolumeAttachments().Informer().HasSynced)
	}
	return all
}
