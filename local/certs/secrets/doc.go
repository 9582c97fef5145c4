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
//	kubeconfig: {secret: tripod-kubeconfig, server: https://tripod.tripod.svc, authority: tripod-ca, client: tripod-admin}
//
// Secrets are those of cert-manager: of type kubernetes.io/tls, with tls.crt, tls.key and, whom to trust, ca.crt. What is done
// to certificates is local/certs's; this package reads all Secrets, has them changed in memory, and writes those that changed,
// each only if nobody else has written it meanwhile. So it may run twice at once, and be killed at any time.
package secrets
