// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"cmp"
	"fmt"

	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/controlplane"
	"k8s.io/kubernetes/pkg/controlplane/reconcilers"
)

// Apply makes the control plane reconcile the endpoints for aggregators, as --endpoint-reconciler-type says. It returns the reconciler, or
// nil if nothing keeps the endpoints. port is as in NewReconciler.
func Apply(config *controlplane.Config, port int) (*Reconciler, error) {
	loopback := config.ControlPlane.Generic.LoopbackClientConfig
	endpoints, err := corev1client.NewForConfig(loopback)
	if err != nil {
		return nil, err
	}
	slices, err := discoveryclient.NewForConfig(loopback)
	if err != nil {
		return nil, err
	}
	adapter := reconcilers.NewEndpointsAdapter(endpoints, slices)

	var stock Stock
	switch config.Extra.EndpointReconcilerType {
	case reconcilers.MasterCountReconcilerType:
		stock.Keep = reconcilers.NewMasterCountEndpointReconciler(config.Extra.MasterCount, adapter)
	case reconcilers.LeaseEndpointReconcilerType, "":
		// This is what kube-apiserver does (k8s.io/kubernetes/pkg/controlplane), with the same keys.
		storage, err := config.ControlPlane.StorageFactory.NewConfig(core.Resource("apiServerIPInfo"), &core.Endpoints{})
		if err != nil {
			return nil, fmt.Errorf("storage of leases: %w", err)
		}
		ttl := cmp.Or(config.Extra.MasterEndpointReconcileTTL, controlplane.DefaultEndpointReconcilerTTL)
		leases, err := reconcilers.NewLeases(storage, "/masterleases/", ttl)
		if err != nil {
			return nil, fmt.Errorf("leases of endpoints: %w", err)
		}
		stock.Keep = reconcilers.NewLeaseEndpointReconciler(adapter, leases)
		stock.Remove = reconcilers.NewLeaseEndpointReconciler(adapter, leases)
	default:
		return nil, nil
	}
	reconciler := NewReconciler(stock, port)
	config.Extra.EndpointReconcilerConfig.Reconciler = reconciler
	return reconciler, nil
}
