// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package openapi has the schemas of the kinds of the API group clusterpedia.io, generated.
package openapi
