// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package server runs core: the control plane of kube-apiserver without the CRD server before it and the aggregator
// around it.
package server

import (
	"context"

	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/notfoundhandler"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controlplane"

	tripodversion "github.com/tripod-k8s/tripod/internal/version"
	"github.com/tripod-k8s/tripod/services/core/options"
)

// Run serves until the context ends, and then shuts down as kube-apiserver does.
func Run(ctx context.Context, o *options.Completed) error {
	klog.InfoS("Starting core", "version", tripodversion.Version, "kubernetes", version.Get().GitVersion)

	probes, err := o.Probes.Start("etcd")
	if err != nil {
		return err
	}
	config, err := newConfig(ctx, o)
	if err != nil {
		return err
	}
	instance, err := newInstance(config, o.AdvertisePort)
	if err != nil {
		return err
	}
	generic := instance.ControlPlane.GenericAPIServer
	prepared := generic.PrepareRun()
	probes.Serve(generic.Handler.NonGoRestfulMux)
	return prepared.RunWithContext(ctx)
}

func newInstance(config *controlplane.Config, port int) (*controlplane.Instance, error) {
	restore := advertisePort(config.ControlPlane.Generic.SecureServing, port)
	defer restore()

	// Paths that nobody serves are 404 only once all paths are known, and 503 before. An empty delegate without this
	// handler would answer 404 from the start, and controllers would take kinds for gone.
	notFound := notfoundhandler.New(config.ControlPlane.Generic.Serializer, genericapifilters.NoMuxAndDiscoveryIncompleteKey)
	return config.Complete().New(genericapiserver.NewEmptyDelegateWithCustomHandler(notFound))
}
