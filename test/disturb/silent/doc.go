// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package silent checks that others do not suffer from a service that is silent, or from a client that does not read.
package silent
