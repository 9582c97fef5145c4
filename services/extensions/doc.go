// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package extensions is the service tripod-extensions. It serves CustomResourceDefinitions and custom resources.
//
// # What it owns
//
// Extensions owns CustomResourceDefinitions and all custom resources. It is the CRD server that kube-apiserver has in the same process,
// as an API server of its own. Policy, namespaces, Services, webhooks and flow schemas come from core.
//
// # From flags to a server
//
// All services start in the same way (base/service/lifecycle.go):
//
//   - options/options.go has the flags. Validate finds what is wrong with them, and Complete fills in what follows from them.
//   - server/config.go makes what the CRD server is built from: authorization (access.go), admission (admission.go). base/backend has
//     the clients of the other services.
//   - server/server.go builds the server, and serves HTTP beside gRPC for the aggregators. discovery.go adds /apis.
//
// # The way of a request
//
//   - base/hop/trust/authenticator.go: the aggregator's certificate lets extensions trust the envelope with the sender's identity.
//   - kube-apiserver's handler chain: audit, impersonation, priority and fairness, authorization (services/shared/policy), admission.
//   - services/shared/policy/gate.go: 503 until this replica has the objects that authorization needs.
//   - k8s.io/apiextensions-apiserver: validation, defaults, conversion and pruning by the definition.
//   - storages: all custom resources share one connection to etcd, and their watches resume.
//
// # What aggregators receive
//
// catalog follows CustomResourceDefinitions, and gives base/hop/feed the group-versions that this replica serves and the resources that
// became usable.
//
// # What to read first
//
// Read server/config.go, then catalog/catalog.go. docs/architecture.md follows one CustomResourceDefinition through all services.
package extensions
