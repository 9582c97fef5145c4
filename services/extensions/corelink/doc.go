// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package corelink connects extensions with core: clients that fail over between core's replicas, and clients that
// see the built-in API groups of core and the custom resources of this server as one API, as the loopback clients of
// kube-apiserver do.
package corelink
