// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package loopback

import "net/url"

const httpsPort = 443

// WebhookPath returns the path of a webhook that is said to be at a Service. It is empty for one that is not at the kubernetes Service.
func WebhookPath(namespace, name string, port *int32, path *string) string {
	if namespace != "default" || name != "kubernetes" || (port != nil && *port != httpsPort) || path == nil {
		return ""
	}
	return *path
}

// OfURL returns the path of a webhook that is said to be at a URL, likewise.
func OfURL(at string) string {
	u, err := url.Parse(at)
	if err != nil || u.Hostname() != "kubernetes.default.svc" || (u.Port() != "" && u.Port() != "443") {
		return ""
	}
	return u.Path
}
