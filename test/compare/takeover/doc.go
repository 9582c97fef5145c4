// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package takeover tests that Tripod takes the place of kube-apiserver on its etcd, and gives it back: one after the other, beside each
// other, and with custom resources moved to an etcd of their own.
package takeover
