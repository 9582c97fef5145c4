// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store/storetest"
)

// BenchmarkWords looks for words in 40,000 pods of 3 KB, in each database, and counts what it finds.
func BenchmarkWords(b *testing.B) {
	for _, kind := range []string{"sqlite", "postgres", "mariadb"} {
		location := ""
		if kind == "sqlite" {
			location = storetest.SQLite(b)
		} else {
			location = databases.New(b, kind)
		}
		s := opened(b, location)
		for _, cluster := range []string{"east", "west"} {
			stream := openStream(b, s, cluster, pods)
			for first := 0; first < 20_000; first += 1000 {
				var batch Batch
				for n := first; n < first+1000; n++ {
					o := object(fmt.Sprintf("ns%02d", n%100), fmt.Sprint("web-", n), "1")
					o.Labels = map[string]string{"app": fmt.Sprint("a", n%50), "tier": "front"}
					o.JSON = fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": %q, "namespace": %q}, "spec": {"containers": [{"image": "example.com/shop/image-%d:1"}], "text": %q}}`,
						o.Name, o.Namespace, n%500, strings.Repeat(fmt.Sprintf("%09d ", n), 280))
					batch.Changes = append(batch.Changes, Change{Object: o})
				}
				require.NoError(b, s.Write(b.Context(), stream, batch))
			}
		}
		require.NoError(b, s.Analyze(b.Context()))
		for _, words := range []string{"web-1999", "image-77:1", "front east", "nothing"} {
			b.Run(kind+"/"+words, func(b *testing.B) {
				for b.Loop() {
					found := 0
					q := query.Query{Limit: 50, WithRemaining: true, Words: strings.Fields(words)}
					_, err := s.List(b.Context(), []schema.GroupVersionResource{pods.GroupVersionResource}, &q, func(Found) error { found++; return nil })
					require.NoError(b, err)
					b.ReportMetric(float64(found), "objects")
				}
			})
		}
	}
}
