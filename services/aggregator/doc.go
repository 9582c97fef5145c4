// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package aggregator is the service tripod-aggregator, the public endpoint of Tripod. It authenticates requests, and sends each to the API
// server that owns it.
//
// # What it owns
//
// The aggregator owns authentication, the routing of requests, the choice of a replica, the merged discovery and OpenAPI documents, and
// APIServices with their availability. Its etcd holds only APIServices. It keeps no other object, and decodes none on its way.
//
// # From flags to a server
//
// All services start in the same way (base/service/lifecycle.go):
//
//   - options/options.go has the flags. Validate finds what is wrong with them, and Complete fills in what follows from them.
//   - server/config.go makes the parts: backends, feeds, the routing table, authentication, authorization, admission.
//   - server/server.go builds a server of them, and installs handlers, controllers and checks.
//   - Run serves until the process gets a signal to stop. server/shutdown.go has the steps of stopping.
//
// # The way of a request
//
//   - routing/request.go: the class of the request. It is made once, and all later steps use it.
//   - routing/table.go: the owner of the path: core, extensions, another backend, the aggregator itself, or an aggregated API server.
//   - server/chain.go: the short chain of handlers for backends, and kube-apiserver's full chain for the rest.
//   - authn/authentication.go: the user of the request. authn/tokens asks core about bearer tokens and caches the answers.
//   - proxy/proxy.go: the request with the identity of its sender, and the answer. aggregated.go does so for aggregated API servers.
//   - upstream/call.go: which replica gets it, and whether another one gets it when that fails. upstream/balance has the policies.
//   - upstream/connections: the connections to replicas.
//
// # What runs besides
//
//   - peers/feeds follows what each replica of a backend reports of itself; upstream/probe.go asks whether it is ready.
//   - apis/apiservices registers the APIServices of the backends, and keeps the Available condition of all APIServices.
//   - apis/discovery and apis/openapi merge documents; apis/health merges the answers of probes.
//   - peers/aggregated finds the replicas of aggregated API servers.
//   - peers/advertise makes this aggregator an endpoint of the kubernetes Service.
//
// # What to read first
//
// Read routing/request.go, server/chain.go and upstream/call.go, in this order. docs/architecture.md follows one request through all
// services.
package aggregator
