// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package openapi has the OpenAPI definitions of k8s.io/metrics.
package openapi
