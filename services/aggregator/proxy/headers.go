// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"net/http"
	"strings"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/transport"
)

// remotePrefix begins every header that carries an identity between API servers.
const remotePrefix = "X-Remote-"

// setIdentity replaces whatever identity the client put into the headers by the authenticated one.
func setIdentity(out *http.Request, u user.Info) {
	stripIdentity(out.Header)
	transport.SetAuthProxyHeaders(out, u.GetName(), u.GetUID(), u.GetGroups(), u.GetExtra())
}

// stripIdentity removes the identity headers in every spelling: servers that turn headers into
// variables take "_" for "-".
func stripIdentity(header http.Header) {
	for name := range header {
		if len(name) >= len(remotePrefix) && strings.EqualFold(strings.ReplaceAll(name[:len(remotePrefix)], "_", "-"), remotePrefix) {
			delete(header, name)
		}
	}
	header.Del("Authorization")
}

// setForwardedFor appends the client's address, from where the backend's audit reads it
// (k8s.io/apimachinery/pkg/util/net.SourceIPs).
func setForwardedFor(out, in *http.Request) {
	if prior, ok := in.Header["X-Forwarded-For"]; ok {
		out.Header["X-Forwarded-For"] = prior
	}
	utilnet.AppendForwardedForHeader(out)
}
