// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"context"
	"encoding/hex"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// collector receives the spans of a server, as an OpenTelemetry collector does.
type collector struct {
	collectorv1.UnimplementedTraceServiceServer

	mu    sync.Mutex
	spans []span
}

// span is a span as the tests look at it. IDs are in hexadecimal, and parent is empty for the root of a trace.
type span struct {
	trace, id, parent, name string
	// target is the path of a request that is served, and empty for other spans.
	target string
	// linked are the traces that it has links to.
	linked []string
}

// newCollector starts a collector that ends with the test, and returns its address.
func newCollector(t *testing.T) (*collector, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c, server := &collector{}, grpc.NewServer()
	collectorv1.RegisterTraceServiceServer(server, c)
	go server.Serve(listener) //nolint:errcheck // a test that receives nothing fails
	t.Cleanup(server.Stop)
	return c, listener.Addr().String()
}

// Export implements collectorv1.TraceServiceServer.
func (c *collector) Export(_ context.Context, request *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range request.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, newSpan(s))
			}
		}
	}
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

func newSpan(s *tracev1.Span) span {
	made := span{
		trace: hex.EncodeToString(s.GetTraceId()), id: hex.EncodeToString(s.GetSpanId()), parent: hex.EncodeToString(s.GetParentSpanId()),
		name: s.GetName(), target: attribute(s.GetAttributes(), "http.target"),
	}
	for _, link := range s.GetLinks() {
		made.linked = append(made.linked, hex.EncodeToString(link.GetTraceId()))
	}
	return made
}

func attribute(attributes []*commonv1.KeyValue, key string) string {
	for _, a := range attributes {
		if a.GetKey() == key {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}

// traces returns the spans of each trace that has a span of a request for target.
func (c *collector) traces(target string) map[string][]span {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := map[string][]span{}
	for _, s := range c.spans {
		if s.target == target {
			found[s.trace] = nil
		}
	}
	for _, s := range c.spans {
		if _, ok := found[s.trace]; ok {
			found[s.trace] = append(found[s.trace], s)
		}
	}
	return found
}
