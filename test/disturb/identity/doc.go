// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package identity has replicas of core lose their etcd, answer with errors, allow everything and lose their CA, and expects that no service
// trusts them any longer.
package identity
