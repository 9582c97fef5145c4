// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package loopback configures the clients with which a service talks to itself.
//
// kube-apiserver's loopback client sees all API groups, because one process serves them. Here it is a Split: a request for
// what the service serves goes to the service itself, and never leaves it; discovery, and what others serve, is asked of
// the aggregator, in the service's own name and with no more rights than that has (see package trust).
//
// The aggregator needs core, so nothing here waits for the aggregator: while it cannot be reached the answer is 503 at once,
// and before it was first heard discovery is that of the service itself.
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
