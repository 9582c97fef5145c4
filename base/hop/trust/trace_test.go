// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/component-base/tracing"

	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

// recorder remembers how the last span was started.
type recorder struct {
	noop.TracerProvider
	last *trace.SpanConfig
}

func (r recorder) Shutdown(context.Context) error { return nil }

func (r recorder) Tracer(string, ...trace.TracerOption) trace.Tracer {
	return recordingTracer{r, noop.Tracer{}}
}

type recordingTracer struct {
	recorder
	trace.Tracer
}

func (r recordingTracer) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	*r.last = trace.NewSpanStartConfig(options...)
	return r.Tracer.Start(ctx, name, options...)
}

var _ tracing.TracerProvider = recorder{}

func TestOnlyTracesOfServicesGoOnForClientsWhoMayNotDecide(t *testing.T) {
	header := http.Header{"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}
	for name, test := range map[string]struct {
		context context.Context
		goesOn  bool
	}{
		"a client of the aggregator": {withSenderOf(t, sender{envelope: &identityv1.Envelope{}}), true},
		"a service":                  {withSenderOf(t, sender{service: &authenticator.Response{User: newService(Core, nil)}}), true},
		"somebody who was refused":   {withSenderOf(t, sender{refused: errNoEnvelope}), false},
		"a client of the service":    {withSenderOf(t, sender{}), false},
		"a service at the aggregator": {
			request.WithUser(t.Context(), newService(Extensions, nil)), true,
		},
		"a client at the aggregator by the name of a service": {
			request.WithUser(t.Context(), &user.DefaultInfo{Name: Extensions}), false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var last trace.SpanConfig
			ctx := tracing.Propagators().Extract(test.context, propagation.HeaderCarrier(header))
			Traces(recorder{last: &last}).Tracer("test").Start(ctx, "GET", trace.WithNewRoot(), trace.WithAttributes(attribute.Bool("kept", true)))
			if last.NewRoot() == test.goesOn {
				t.Errorf("a new trace is begun: %t, want %t", last.NewRoot(), !test.goesOn)
			}
			if len(last.Attributes()) != 1 {
				t.Errorf("the span has the attributes %v, want one", last.Attributes())
			}
		})
	}
}

func TestTheTraceOfAServiceIsKnownBeforeAuthentication(t *testing.T) {
	header := http.Header{"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}
	for from, want := range map[*sender]bool{
		{envelope: &identityv1.Envelope{}}: true, {}: false, {refused: errNoEnvelope}: false,
	} {
		assert.Equal(t, want, trace.SpanContextFromContext(from.traceOf(t.Context(), header)).IsValid(), "the trace of %+v is known", from)
	}
}

// unreachable is a provider that never reaches its collector.
type unreachable struct{ tracing.TracerProvider }

func (unreachable) Shutdown(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestACollectorThatIsAwayHoldsUpStoppingForAMomentOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		assert.ErrorIs(t, Traces(unreachable{}).Shutdown(t.Context()), context.DeadlineExceeded, "Shutdown()")
		assert.Equal(t, flushTimeout, time.Since(began), "it took another time")
	})
}

func withSenderOf(t *testing.T, from sender) context.Context {
	t.Helper()
	return context.WithValue(t.Context(), senderKey{}, from)
}
