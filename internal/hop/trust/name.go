// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

// Namespace is where the services seem to live: in their certificates, and in APIServices that name them.
const Namespace = "tripod-system"

// ServerName is the DNS name that the certificate of a service ("core", ...) must have when it is connected to, wherever
// it is: the names of its hosts may be those of other services as well.
func ServerName(service string) string {
	return service + "." + Namespace + ".svc"
}
