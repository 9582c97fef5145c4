// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hostile is an API server of a cluster that lies: it sends answers without an end, pages that decompress to gigabytes, objects of no type,
// names that are no names, and frames that are no HTTP/2. [Lies] has them all, each with what a search of that cluster must show.
//
// A server has one lie. It is honest otherwise, so it passes for a small cluster:
//
//	server := hostile.Start(t, lie)
//	kubeconfig := server.Kubeconfig()
package hostile
