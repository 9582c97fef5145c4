// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package version holds the version of Tripod itself. The version of Kubernetes that Tripod serves is
// k8s.io/component-base/version, as in kube-apiserver.
package version

// Version is the version of Tripod, set by the linker in release builds.
var Version = "dev"
