// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 has the kind that the examples of storages serve.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=com.example.notes.v1
// +groupName=notes.example.com
package v1
