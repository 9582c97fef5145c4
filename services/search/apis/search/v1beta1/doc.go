// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1beta1 has the kinds of the API group clusterpedia.io: Resources, below whose path the objects of clusters are, and
// CollectionResource, which has objects of several resources. Names and fields are those of Clusterpedia 0.9.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=io.clusterpedia.v1beta1
package v1beta1
