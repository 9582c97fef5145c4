// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package loopback

import "net/url"

const httpsPort = 443

// WebhookPath returns the path of a webhook at a Service, or "" unless that is the kubernetes Service: aggregated API servers serve such
// webhooks behind the aggregator. It follows the rule by which kube-apiserver calls a webhook with its loopback client
// (k8s.io/apiserver/pkg/util/webhook).
func WebhookPath(namespace, name string, port *int32, path *string) string {
	at := int32(httpsPort)
	if port != nil {
		at = *port
	}
	if path == nil || !IsKubernetes(namespace, name, at) {
		return ""
	}
	return *path
}

// IsKubernetes reports whether kube-apiserver calls a webhook at that port of a Service with its loopback client.
func IsKubernetes(namespace, name string, port int32) bool {
	return namespace == "default" && name == "kubernetes" && port == httpsPort
}

// WebhookPathOfURL does the same for a webhook at a URL.
func WebhookPathOfURL(at string) string {
	u, err := url.Parse(at)
	if err != nil || u.Hostname() != "kubernetes.default.svc" || (u.Port() != "" && u.Port() != "443") {
		return ""
	}
	return u.Path
}
