// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1beta1 is the preferred version of flunders, and the one that validation sees.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=io.k8s.sample-apiserver.pkg.apis.wardle.v1beta1
// +groupName=wardle.example.com
package v1beta1
