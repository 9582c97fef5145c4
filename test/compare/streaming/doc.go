// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package streaming has clients run programs in containers, attach to them, forward ports, follow logs and go through the API
// server to nodes, pods and services: by SPDY and by WebSocket, in both directions, with much data, with one end that stops to
// send and one that stops to read. Every test runs on a stock kube-apiserver and on Tripod, and expects the same of both.
//
// The kubelet is that of the framework, with the server side of the protocols that kubelets and container runtimes have; what
// runs in its containers are functions of the tests.
package streaming
