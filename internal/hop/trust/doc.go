// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package trust is how the services of Tripod know and trust each other.
//
// Every service holds a certificate of one internal CA, the service CA. Its common name says which service it is. A backend uses the
// certificate of a connection to decide who sent a request ([BackendOptions.ApplyTo]):
//
//   - On a connection of the aggregator, the envelope of the request names the sender (see package envelope). The backend refuses a
//     request without an envelope, so that no mistake turns a client's request into one of the aggregator. An envelope of the
//     aggregator's own requests names the aggregator.
//   - On a connection of another service, the sender is that service.
//   - The backend refuses everybody else, and an envelope from anybody but the aggregator. With --allow-direct-clients it authenticates
//     clients without an envelope by its own authenticators.
//
// A fixed list of rules says what a service may do in its own name (rules.go). [NewAuthorizer] evaluates it before the configured
// authorizers, so it holds in every authorization mode and needs no object in etcd.
package trust
