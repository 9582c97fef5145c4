// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package link makes clients of another service, in a service's own name: requests go to the replica that answered
// last, and to the next one when no connection can be made.
package link
