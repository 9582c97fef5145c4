// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package seats has users take all seats of core, and expects that the services do not wait for one.
package seats
