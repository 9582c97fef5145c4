// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package moves copies the objects of a group from extensions into an API service that does not have the group yet.
package moves
