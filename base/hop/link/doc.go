// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package link has the clients that a service uses to reach another service in its own name. A request goes to the replica that answered
// last. If a connection cannot be made, it goes to the next replica.
package link
