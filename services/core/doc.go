// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package core is the service tripod-core. It serves the built-in API groups of Kubernetes, and is the authority on identity and policy for
// Tripod's other services.
//
// # What it owns
//
// Core owns all built-in objects, tokens, RBAC, and the endpoints of the kubernetes Service. It is kube-apiserver's control plane, built by
// kube-apiserver's own code, without the CRD server and the aggregator that kube-apiserver has in the same process. It starts and serves
// without the other services.
//
// # From flags to a server
//
// All services start in the same way (base/service/lifecycle.go):
//
//   - options/options.go has the flags: all of kube-apiserver's, and a few of Tripod's.
//   - server/config.go calls kube-apiserver's builders, and adds between them what Tripod needs.
//   - server/server.go builds the server, and serves HTTP beside gRPC for the aggregators.
//
// # The way of a request
//
//   - base/hop/trust/authenticator.go: the aggregator's certificate lets core trust the envelope with the sender's identity.
//   - kube-apiserver's handler chain: audit, impersonation, priority and fairness, authorization, admission.
//   - server/loopback.go: admission sees what other services serve by way of the aggregator.
//   - base/storage/watchresume: watches resume at a replica whose watch cache is younger than they are.
//
// # What aggregators ask and receive
//
//   - identity answers whose token it is, and reports when an answer ends (proto/identity/v1).
//   - base/hop/feed reports what this replica serves and whether it is ready (proto/backend/v1). server/catalog.go makes the list.
//   - endpoints receives the addresses of aggregators that serve, and keeps the endpoints of the kubernetes Service (proto/endpoints/v1).
//   - paramkinds lets other services read the kinds that admission policies take parameters from.
//
// # What to read first
//
// Read server/config.go, then identity/service.go. docs/architecture.md follows one token through all services.
package core
