// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package trust is how the services of Tripod know and trust each other.
//
// Every service holds a certificate of one internal CA, the service CA, with a common name that says which service it
// is. A service that the aggregator sends requests to knows the sender of a request by it (BackendOptions.ApplyTo):
//
//   - On a connection of the aggregator, the sender is whom the envelope (see package envelope) names. A request without
//     one is refused, so that no mistake turns the request of a client into one of the aggregator; the aggregator's own
//     requests name itself.
//   - On a connection of any other service, the sender is that service.
//   - A request of anybody else is refused, and so is an envelope from anybody but the aggregator. Where the operator
//     says so, clients without an envelope are authenticated in the service's own ways.
//
// What a service may do in its own name is a fixed set of rules (see rules.go), evaluated by NewAuthorizer in front
// of the configured authorizers. So it holds in every authorization mode, and needs no object in etcd.
package trust
