// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package connect opens the API of a Helm release on this machine, as `tripod connect` does: a port of 127.0.0.1 that leads to one of the
// release's aggregators, and a kubeconfig for it.
//
//	Find         the release in its namespace, by the labels of the chart
//	Credentials  from the Secret that the chart makes
//	Open         a [Tunnel]: a listener whose connections go through the API server of the host cluster to a ready pod
//	RunCommand   a command with the kubeconfig, which [WriteKubeconfig] or [MergeKubeconfig] has written
//
// A tunnel keeps its port while pods come and go. When its pod is no longer ready, new connections go to another pod, and those that the
// former pod has go on until they end.
package connect
