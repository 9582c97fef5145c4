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

// traceOf returns ctx with the trace that a service says a request belongs to. Whether that is the trace of its client was for
// the aggregator to decide.
func (s sender) traceOf(ctx context.Context, header http.Header) context.Context {
	if s.envelope == nil && s.service == nil {
		return ctx
	}
	if len(header["Traceparent"]) == 0 && len(header["Baggage"]) == 0 {
		return ctx // nothing to look for
	}
	return tracing.Propagators().Extract(ctx, propagation.HeaderCarrier(header))
}

// Traces makes the traces of requests that come from services go on, whoever the client is. Left alone, the handler chain begins a
// new one for everybody who is not trusted with such decisions, and each of these requests would leave two halves.
//
// It also bounds what a service that stops waits for a collector that is away. kube-apiserver waits for it up to 10 s for every 512
// spans; the services stop one after the other, so that the waits would add up.
func Traces(provider tracing.TracerProvider) tracing.TracerProvider { return traces{provider} }

// flushTimeout is how long the last spans may take to be sent.
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

// fromService reports whether a service sent a request, in whosever name.
func fromService(ctx context.Context) bool {
	if from, ok := ctx.Value(senderKey{}).(sender); ok {
		return from.envelope != nil || from.service != nil
	}
	user, ok := request.UserFrom(ctx)
	return ok && ServiceOf(user) != ""
}
