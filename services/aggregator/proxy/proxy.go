// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package proxy forwards requests: to core and extensions, which authorize, audit and admit them
// (Forwarder), and to API servers that users registered (Aggregated).
package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/hop/envelope"
	"github.com/tripod-k8s/tripod/base/hop/trust"
	"github.com/tripod-k8s/tripod/services/aggregator/requestmemory"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
	"github.com/tripod-k8s/tripod/services/aggregator/status"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream"
)

// Forwarder passes authenticated requests to a backend, byte for byte: nothing is decoded, and
// after the headers nothing is added. The user of the request's context becomes its identity;
// identity that the client claims is removed, impersonation is left for the backend to judge.
type Forwarder struct {
	name       string
	serializer runtime.NegotiatedSerializer
	proxy      *httputil.ReverseProxy
	memory     *requestmemory.Budget
	// onGroupVersion may be nil (see NewForwarder).
	onGroupVersion func(context.Context, schema.GroupVersion)
	// decides and ofServices may be nil (see Decide).
	decides, ofServices authorizer.Authorizer
	endings             *Endings
	// measures is set by Measure.
	measures bool
}

// NewForwarder returns a handler that forwards through the transport of the backend called name. The serializer renders errors. Requests
// share the memory and the endings of namespaces. onGroupVersion is called before a client gets it, with the discovery document of a
// group-version, that there is that group-version. It may be nil.
func NewForwarder(
	name string, transport http.RoundTripper, memory *requestmemory.Budget, endings *Endings, s runtime.NegotiatedSerializer,
	onGroupVersion func(context.Context, schema.GroupVersion),
) *Forwarder {
	f := &Forwarder{name: name, serializer: s, memory: memory, endings: endings, onGroupVersion: onGroupVersion}
	f.proxy = &httputil.ReverseProxy{
		Rewrite:      rewrite,
		Transport:    transport,
		BufferPool:   reverseProxyBuffers{},
		ErrorHandler: f.fail,
		ErrorLog:     log.New(klogWriter{}, "", 0),
	}
	return f
}

// Decide makes the forwarder send the backend an authorizer's decision about each request of users, and another one's about those that
// services send in their own name. Core and extensions decide that themselves. A backend trusts that services may do what is allowed of
// them however long a request waits, so ofServices must always say the same.
func (f *Forwarder) Decide(by, ofServices authorizer.Authorizer) {
	f.decides, f.ofServices = by, ofServices
}

// judge returns what decides about the requests of a sender, or nil.
func (f *Forwarder) judge(sender user.Info) authorizer.Authorizer {
	if trust.ServiceOf(sender) != "" {
		return f.ofServices
	}
	return f.decides
}

// ServeHTTP forwards the request.
func (f *Forwarder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	sender, ok := request.UserFrom(req.Context())
	if !ok {
		status.Unavailable(f.serializer, w, req, "the request was not authenticated")
		return
	}
	reservation := f.memory.Begin(req, sender)
	if reservation == nil {
		status.TooMany(f.serializer, w, req, status.TooMuchMemory)
		return
	}
	defer func() {
		if cancelled(req) {
			reservation.EndCancelled()
		} else {
			reservation.End()
		}
	}()
	sealed, err := f.seal(req, sender)
	if err != nil {
		responsewriters.InternalError(w, req, err)
		return
	}
	stripIdentity(req.Header)
	req.Header[envelope.Header] = []string{sealed}
	if tooLarge(req.Header) {
		status.HeadersTooLarge(f.serializer, w, req)
		return
	}
	class, transport := routing.Of(req), counted{f.proxy.Transport, reservation}
	if class.LongRunning {
		w = reservation.Writer(w)
	}
	var m measurement
	defer f.record(req, class, &m)
	f.longRunning(req, class, func() {
		if class.Plain {
			f.servePlain(w, req, class, transport, &m)
		} else {
			f.serveAny(w, req, class, transport, &m)
		}
	})
}

// serveAny forwards a request whose answer may be anything that HTTP allows.
func (f *Forwarder) serveAny(w http.ResponseWriter, req *http.Request, class *routing.Request, transport http.RoundTripper,
	m *measurement) {
	proxy := *f.proxy
	proxy.Transport = transport
	proxy.ModifyResponse = func(resp *http.Response) error {
		m.take(resp)
		return f.adapt(resp)
	}
	if class.Tunnel {
		serveUpgrade(proxy, w, req)
		return
	}
	proxy.ServeHTTP(&finalAnswer{ResponseWriter: w, header: http.Header{}}, req)
}

func rewrite(pr *httputil.ProxyRequest) {
	keepHeaders(pr.Out.Header, pr.In.Header)
	setAuditID(pr.In.Context(), pr.Out.Header)
	// As the client wrote it: the backend decides what a malformed query means.
	pr.Out.URL.RawQuery = pr.In.URL.RawQuery
}

// errRefused is the answer of a backend that does not trust the aggregator.
var errRefused = errors.New("the backend refuses the certificate or the envelope of the aggregator")

// adapt removes what the aggregator's own handlers set on the response already, and lets a watch end
// as watches do.
func (f *Forwarder) adapt(resp *http.Response) error {
	resp.Header.Del("Audit-Id")
	resp.Header.Del("Strict-Transport-Security")
	if resp.StatusCode == http.StatusUnauthorized && resp.Header.Get(envelope.RefusedHeader) != "" {
		return errRefused
	}
	class := routing.Of(resp.Request)
	f.endings.note(class, resp.StatusCode)
	if resp.StatusCode != http.StatusOK {
		return nil
	}
	if class.Kind == routing.Watch {
		resp.Body = watchBody{resp.Body}
	}
	if f.onGroupVersion != nil && class.Kind == routing.NonResource {
		if parts := strings.Split(strings.Trim(class.Info.Path, "/"), "/"); len(parts) == 3 && parts[0] == "apis" {
			f.onGroupVersion(resp.Request.Context(), schema.GroupVersion{Group: parts[1], Version: parts[2]})
		}
	}
	return nil
}

// watchBody ends when its backend, or the aggregator, goes away: the client resumes where it was. A
// broken stream would be an error to report.
type watchBody struct{ io.ReadCloser }

func (b watchBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		klog.V(2).InfoS("A watch was cut off by its backend, ending it", "err", err)
		err = io.EOF
	}
	return n, err
}

// fail answers a request that got no response. Clients repeat a request that is answered with
// Retry-After, so the aggregator sends it only where a repetition does no harm: the request never left, or it
// only reads.
func (f *Forwarder) fail(w http.ResponseWriter, req *http.Request, err error) {
	var unreachable *upstream.UnreachableError
	var unknown *upstream.UnknownReplicaError
	var redirect *upstream.RedirectError
	switch {
	case cancelled(req):
		abort(req)
		return
	case errors.Is(err, errTooMuch):
		status.TooMany(f.serializer, w, req, status.TooMuchMemory)
		return
	case upstream.IsTooLarge(err):
		status.HeadersTooLarge(f.serializer, w, req)
		return
	case errors.As(err, &unknown):
		status.NotFound(f.serializer, w, req, unknown.Error())
		return
	case errors.As(err, &redirect):
		klog.ErrorS(err, "A backend redirects a client. Is it one of ours?", "backend", f.name, "method", req.Method, "path", req.URL.Path)
		status.BadGateway(f.serializer, w, req, redirect.Error())
		return
	case errors.Is(err, errRefused):
		klog.ErrorS(err, "Is the certificate of the aggregator valid, and issued by the service CA of the backend?", "backend", f.name)
	case errors.As(err, &unreachable):
		klog.V(2).InfoS("Backend unreachable", "backend", f.name, "err", err)
	default:
		klog.InfoS("Request to backend failed", "backend", f.name, "method", req.Method, "path", req.URL.Path, "err", err)
		if !routing.Of(req).Repeatable {
			status.BadGateway(f.serializer, w, req, fmt.Sprintf(
				"the connection to %s broke before it answered; the request may have been carried out",
				f.name))
			return
		}
	}
	status.Unavailable(f.serializer, w, req, "%s is not available at the moment", f.name)
}

// cancelled reports whether the client has taken the request back, or is gone.
func cancelled(req *http.Request) bool {
	return errors.Is(context.Cause(req.Context()), context.Canceled)
}

// abort breaks off the answer to a request, by a panic. If a client of HTTP/2 has cancelled the request, its stream is closed, so the
// handler just returns: filters log each panic, and a client can cancel thousands of requests a second.
func abort(req *http.Request) {
	if req.ProtoMajor == 2 && cancelled(req) {
		return
	}
	panic(http.ErrAbortHandler)
}

// copyBuffers are the buffers through which bodies pass.
var copyBuffers bufferPool

type bufferPool struct{ pool sync.Pool }

const bufferSize = 32 << 10

func (p *bufferPool) Get() *[]byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, bufferSize)
	return &b
}

func (p *bufferPool) Put(b *[]byte) { p.pool.Put(b) }

// reverseProxyBuffers are the same for httputil.ReverseProxy.
type reverseProxyBuffers struct{}

func (reverseProxyBuffers) Get() []byte { return *copyBuffers.Get() }

func (reverseProxyBuffers) Put(b []byte) { copyBuffers.Put(&b) }

// klogWriter receives what httputil.ReverseProxy logs, such as a client that went away while a
// body was copied.
type klogWriter struct{}

func (klogWriter) Write(p []byte) (int, error) {
	klog.V(4).Info(string(p))
	return len(p), nil
}
