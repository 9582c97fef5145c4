// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package loopback configures the clients with which a service talks to itself.
//
// kube-apiserver's loopback client sees all API groups, because one process serves them. Here a [Split] divides the requests:
//
//   - A request for a group-version that the service serves stays in the process.
//   - Discovery, and group-versions of other services, go to the aggregator, with the service's certificate and its few rights (see
//     package trust).
//
// The aggregator needs core, so core must never wait for the aggregator. While no aggregator can be reached, a request gets 503 at
// once. Until the first answer of an aggregator, the service answers discovery itself.
package loopback

import (
	"strings"

	restclient "k8s.io/client-go/rest"
)

// UserAgent returns the user agent of kube-apiserver. Field managers are named after it, so all servers must use the same one.
func UserAgent() string {
	_, rest, _ := strings.Cut(restclient.DefaultKubernetesUserAgent(), "/")
	return "kube-apiserver/" + rest
}
