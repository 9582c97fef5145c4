// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package secrets makes and renews certificates, keys and a kubeconfig in Secrets of a cluster, as a [Config] lists them:
//
//	namespace: tripod
//	authorities:
//	- {secret: tripod-ca, commonName: tripod-ca}
//	certificates:
//	- {secret: tripod-admin, authority: tripod-ca, commonName: kubernetes-admin, organizations: [system:masters], usages: [client]}
//	serviceAccountKey: {secret: tripod-service-account}
//	kubeconfig: {secret: tripod-kubeconfig, server: https://tripod.tripod.svc, client: tripod-admin}
//
// Secrets have the form of cert-manager's: type kubernetes.io/tls, with tls.crt, tls.key and, for the CA to trust, ca.crt. Package
// certs makes the certificates. This package reads all Secrets, lets certs change them in memory, and writes those that changed,
// each only if no other client has written it meanwhile. So it may run twice at once, and be killed at any time.
package secrets
