// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package helm has the tests of the chart tripod: they render it with helm and look at the objects, which they have validated as an
// API server validates them.
package helm
