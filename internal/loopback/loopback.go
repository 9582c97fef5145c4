// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package loopback configures the clients with which a service talks to itself.
package loopback

import (
	"strings"

	restclient "k8s.io/client-go/rest"
)

// UserAgent is kube-apiserver's. Field managers are named after it, and what one server wrote another may take over.
func UserAgent() string {
	_, rest, _ := strings.Cut(restclient.DefaultKubernetesUserAgent(), "/")
	return "kube-apiserver/" + rest
}
