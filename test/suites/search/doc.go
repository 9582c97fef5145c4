// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package search searches the objects of a running Tripod with the clients that people use.
package search
