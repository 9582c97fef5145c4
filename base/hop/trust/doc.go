// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package trust defines how the services of Tripod recognise and trust each other.
//
// Every service holds a certificate of one internal CA, the service CA. The common name is the name of the service. A backend identifies
// the sender of a request by the certificate of the connection ([BackendOptions.ApplyTo]):
//
//   - On a connection of the aggregator, the envelope of the request names the sender (package envelope). The backend refuses a request
//     without an envelope. So no mistake can turn a client's request into one of the aggregator. The aggregator's own requests have an
//     envelope that names the aggregator.
//   - On a connection of another service, the sender is that service.
//   - The backend refuses all other connections, and envelopes on them. With --allow-direct-clients, its own authenticators judge clients
//     without an envelope.
//
// A service has the rights of the list of Tripod's services ([Rights]) in its own name. [NewAuthorizer] evaluates it before the configured
// authorizers. So the list holds in every authorization mode, and needs no object in etcd. An API service that does not have the list
// trusts the decision in the envelope: the aggregator has the list.
package trust
