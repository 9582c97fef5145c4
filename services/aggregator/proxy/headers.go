// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"net/http"
	"slices"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/transport"

	"github.com/tripod-k8s/tripod/base/hop/envelope"
	"github.com/tripod-k8s/tripod/base/hop/trust"
	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
	"github.com/tripod-k8s/tripod/services/aggregator/requestmemory"
)

// seal returns the envelope with all that the aggregator found out about the sender of a request.
func (f *Forwarder) seal(req *http.Request, sender user.Info) (string, error) {
	e := identityv1.Envelope{
		ClientAddress: req.RemoteAddr,
		Warnings:      warningsFrom(req.Context()),
		NamespaceEnds: f.endings.concern(req),
	}
	if e.Service = trust.ServiceOf(sender); e.Service == "" {
		e.User = envelope.FromUser(sender)
	}
	if decides := f.judge(sender); decides != nil {
		var err error
		if e.Decision, err = trust.Decide(req.Context(), decides); err != nil {
			return "", err
		}
	}
	if event := audit.AuditContextFrom(req.Context()); event != nil {
		e.AuditAnnotations = event.GetEventAnnotations()
	}
	return envelope.Encode(&e)
}

// setUser replaces whatever identity the client put into the headers by the authenticated one, for an aggregated API server.
func setUser(out *http.Request, sender user.Info) {
	stripIdentity(out.Header)
	transport.SetAuthProxyHeaders(out, sender.GetName(), sender.GetUID(), sender.GetGroups(), sender.GetExtra())
}

func stripIdentity(header http.Header) {
	envelope.Strip(header)
	header.Del("Authorization")
}

// tooLarge reports whether a backend would end the connection, which others use, because of headers. HTTP/1.1 lets in more small ones.
func tooLarge(header http.Header) bool {
	return requestmemory.SizeOf(header) > http.DefaultMaxHeaderBytes
}

// hopByHop are the headers that belong to one connection (RFC 9110, section 7.6.1).
var hopByHop = []string{
	"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade",
}

// keepHeaders restores what httputil.ReverseProxy takes away but the backend would see if the client had come to it: where
// the request was before (k8s.io/apimachinery/pkg/util/net.SourceIPs), and what the client lists in its Connection header.
// API servers ignore that list. A server that obeys it lets a client behind an impersonating proxy drop Impersonate-User.
func keepHeaders(out, in http.Header) {
	for name, values := range in {
		if _, kept := out[name]; !kept && !slices.Contains(hopByHop, name) {
			out[name] = values
		}
	}
}

// setAuditID makes the backend's audit events have the ID that the client gets.
func setAuditID(ctx context.Context, header http.Header) {
	if id, ok := audit.AuditIDFrom(ctx); ok {
		header.Set(auditinternal.HeaderAuditID, string(id))
	}
}
