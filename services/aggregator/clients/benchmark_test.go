// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tripod-k8s/tripod/services/aggregator/requestmemory"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
)

// BenchmarkRequest has one of many connections after the other begin and end a request of the user to whom it belongs.
func BenchmarkRequest(b *testing.B) {
	const connections, users = 1024, 16
	requests := requestmemory.New(0)
	c := New(0, requests)
	answered := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	handler := c.Arrive(c.Use(answered, nil))
	var all []*http.Request
	for i := range connections {
		conn := arrive(c, "10.0.0.1")
		ctx := context.WithValue(b.Context(), http.LocalAddrContextKey, localAddress{nil, conn})
		ctx = request.WithUser(ctx, named(fmt.Sprint("user-", i%users)))
		req := httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/namespaces/a/configmaps/b", nil)
		class, err := routing.Classify(req, routing.Target{Owner: routing.Core})
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, req.WithContext(class.In(ctx)))
	}
	for name, one := range map[string]bool{"one connection": true, "many connections": false} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var next atomic.Int64
			b.RunParallel(func(pb *testing.PB) {
				for i := int(next.Add(1)) * 64; pb.Next(); i++ {
					if one {
						i = 0
					}
					handler.ServeHTTP(nil, all[i%connections])
				}
			})
		})
	}
}
