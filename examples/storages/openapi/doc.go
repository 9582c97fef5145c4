// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package openapi has the OpenAPI definitions of notes.
package openapi
