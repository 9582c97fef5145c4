// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package takeover has the tests of docs/migrate.md for a cluster of kubeadm: in a kind cluster of its own, Tripod takes the
// place of kube-apiserver in the static pod, with workloads that go on, and gives it back.
package takeover
