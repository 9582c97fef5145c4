// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the version in which flunders and fischers are stored.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=io.k8s.sample-apiserver.pkg.apis.wardle.v1alpha1
// +groupName=wardle.example.com
package v1alpha1
