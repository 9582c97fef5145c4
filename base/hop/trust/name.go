// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

// Namespace is the namespace in the DNS names of certificates, and in spec.service of APIServices. It need not exist.
const Namespace = "tripod-system"

// ServerName returns the DNS name that the certificate of a service ("core", ...) must have. It does not depend on the host, because
// services may share hosts.
func ServerName(service string) string {
	return service + "." + Namespace + ".svc"
}
