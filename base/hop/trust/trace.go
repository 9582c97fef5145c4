// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"context"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/component-base/tracing"
)

// traceOf returns ctx with the trace context of a request from a service. The aggregator has decided already whether to trust the client's
// trace context.
func (s sender) traceOf(ctx context.Context, header http.Header) context.Context {
	if s.envelope == nil && s.service == nil {
		return ctx
	}
	if len(header["Traceparent"]) == 0 && len(header["Baggage"]) == 0 {
		return ctx
	}
	return tracing.Propagators().Extract(ctx, propagation.HeaderCarrier(header))
}

// Traces continues the trace of any request that a service sent. The handler chain of kube-apiserver starts a new trace for untrusted
// clients, which would cut the trace in two.
//
// Traces also limits how long a stopping service waits for an unreachable collector. kube-apiserver waits up to 10 s for every 512 spans.
// Services stop one after the other, so these waits would add up.
func Traces(provider tracing.TracerProvider) tracing.TracerProvider { return traces{provider} }

// flushTimeout limits the export of the last spans.
const flushTimeout = 3 * time.Second

type traces struct{ tracing.TracerProvider }

// Shutdown implements tracing.TracerProvider.
func (t traces) Shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	return t.TracerProvider.Shutdown(ctx)
}

// Tracer implements trace.TracerProvider.
func (t traces) Tracer(name string, options ...trace.TracerOption) trace.Tracer {
	return tracer{t.TracerProvider.Tracer(name, options...)}
}

type tracer struct{ trace.Tracer }

// Start implements trace.Tracer.
func (t tracer) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	if config := trace.NewSpanStartConfig(options...); config.NewRoot() && fromService(ctx) && trace.SpanContextFromContext(ctx).IsRemote() {
		options = []trace.SpanStartOption{
			trace.WithAttributes(config.Attributes()...), trace.WithTimestamp(config.Timestamp()), trace.WithSpanKind(config.SpanKind()),
		}
	}
	return t.Tracer.Start(ctx, name, options...)
}

// fromService reports whether a service sent the request, in its own name or for a client.
func fromService(ctx context.Context) bool {
	if from, ok := ctx.Value(senderKey{}).(sender); ok {
		return from.envelope != nil || from.service != nil
	}
	user, ok := request.UserFrom(ctx)
	return ok && ServiceOf(user) != ""
}
