// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package servicetrust is how the services of Tripod know and trust each other.
//
// Every service holds a certificate of one internal CA, the service CA, with a common name that says which
// service it is. A service that serves others checks such certificates with NewAuthenticator:
//
//   - On a connection of the aggregator, X-Remote-User, X-Remote-Uid, X-Remote-Group and X-Remote-Extra-* are the
//     user of the request, verbatim. Without X-Remote-User the user is the aggregator itself.
//   - On a connection of any other service, the user is that service; X-Remote-* means nothing.
//   - Any other certificate, or none, is not this package's business: the authenticators after it decide.
//
// What a service may do in its own name is a fixed set of rules (see rules.go), evaluated by NewAuthorizer in front
// of the configured authorizers. So it holds in every authorization mode, and needs no object in etcd.
package servicetrust
