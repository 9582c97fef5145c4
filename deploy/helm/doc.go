// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package helm tests the chart tripod. The tests render it with helm, validate the objects as an API server would, and check what is in
// them.
package helm
