// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/services/search/store/storetest"
)

// BenchmarkWrites writes batches of 500 objects of 3.7 kB: those of a first list, and those of changes, with the history and without.
func BenchmarkWrites(b *testing.B) {
	const batchSize = 500
	for name, location := range map[string]func(testing.TB) string{
		"sqlite":   storetest.SQLite,
		"postgres": func(tb testing.TB) string { return databases.New(tb, "postgres") },
		"mariadb":  func(tb testing.TB) string { return databases.New(tb, "mariadb") },
	} {
		batchOf := func(first, version int) (batch Batch) {
			for i := range batchSize {
				o := object("default", fmt.Sprint("object-", first+i), fmt.Sprint(version))
				o.Labels, o.Owners = map[string]string{"app": fmt.Sprint("app-", i%50), "tier": "web"}, []string{fmt.Sprint("owner-", i%100)}
				o.JSON = fmt.Appendf(nil, `{"metadata": {"namespace": "default", "name": %q, "resourceVersion": "%d"}, "spec": {"containers": [%s{"image": "i"}]}}`,
					o.Name, version, strings.Repeat(`{"name": "c", "image": "example.com/shop/front:1.3", "env": [{"name": "A", "value": "b"}]}, `, 38))
				batch.Changes = append(batch.Changes, Change{Object: o})
			}
			return batch
		}
		b.Run(name+"/first list", func(b *testing.B) {
			s := opened(b, location(b))
			stream := openStream(b, s, "one", pods)
			for n := 0; b.Loop(); n++ {
				batch := batchOf(n*batchSize, 1)
				batch.Listing = 1
				require.NoError(b, s.Write(b.Context(), stream, batch))
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/batchSize, "µs/object")
		})
		changes := func(b *testing.B, prepare ...string) {
			s := opened(b, location(b))
			for _, text := range prepare {
				_, err := s.db.Writer().Exec(text)
				require.NoError(b, err)
			}
			stream := openStream(b, s, "one", pods)
			const batches = 10
			for n := range batches {
				require.NoError(b, s.Write(b.Context(), stream, batchOf(n*batchSize, 1)))
			}
			for n := 0; b.Loop(); n++ {
				require.NoError(b, s.Write(b.Context(), stream, batchOf(n%batches*batchSize, n+2)))
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/batchSize, "µs/object")
		}
		b.Run(name+"/changes", func(b *testing.B) { changes(b) })
		if name == "postgres" { // it can leave out what a statement asks for
			b.Run(name+"/changes without history", func(b *testing.B) {
				changes(b, "CREATE RULE nothing AS ON INSERT TO changes DO INSTEAD NOTHING", "CREATE RULE nothing AS ON INSERT TO versions DO INSTEAD NOTHING")
			})
		}
	}
}
