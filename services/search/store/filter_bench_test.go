// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store/access"
)

// BenchmarkScopes lists 500 of 100,000 pods in PostgreSQL: four clusters with 100 namespaces each.
func BenchmarkScopes(b *testing.B) {
	const perCluster, namespaces = 25_000, 100
	clusters := []string{"c0", "c1", "c2", "c3"}
	s := opened(b, databases.New(b, "postgres"))
	for _, cluster := range clusters {
		stream := openStream(b, s, cluster, pods)
		for first := 0; first < perCluster; first += 1000 {
			var batch Batch
			for n := first; n < first+1000; n++ {
				o := object(fmt.Sprintf("ns%02d", n%namespaces), fmt.Sprint("web-", n), "1")
				o.Labels = map[string]string{"app": fmt.Sprint("a", n%50)}
				o.JSON = fmt.Appendf(nil, `{"metadata": {"name": %q, "namespace": %q}, "spec": {"text": "%01000d"}}`, o.Name, o.Namespace, n)
				batch.Changes = append(batch.Changes, Change{Object: o})
			}
			require.NoError(b, s.Write(b.Context(), stream, batch))
		}
	}
	require.NoError(b, s.Analyze(b.Context()))
	changed := lastRights(b, s)
	// in returns a scope with some of the namespaces, others in each cluster if step is not zero.
	in := func(count, step int) access.Filter {
		scope := given{asOf: changed, parts: map[string]*access.ObjectSet{}}
		for i, cluster := range clusters {
			some := sets.New[string]()
			for n := range count {
				some.Insert(fmt.Sprintf("ns%02d", (n*7+i*step)%namespaces))
			}
			scope.parts[cluster+" pods"] = objectSetOf(some, nil, nil)
		}
		return scope
	}
	named := given{asOf: changed, parts: map[string]*access.ObjectSet{}}
	for _, cluster := range clusters {
		objects := sets.New[[2]string]()
		for n := range 200 {
			objects.Insert([2]string{fmt.Sprintf("ns%02d", n%namespaces), fmt.Sprint("web-", n)})
		}
		named.parts[cluster+" pods"] = objectSetOf(nil, nil, objects)
	}
	for _, q := range []struct {
		name  string
		query query.Query
	}{
		{"list", query.Query{Limit: 500}},
		{"label", query.Query{Limit: 500, Labels: labelIs(b, "app", "a7")}},
		{"count", query.Query{Limit: 500, WithRemaining: true}},
	} {
		for _, as := range []struct {
			name  string
			scope access.Filter
		}{
			{"whole", nil}, {"1-namespace", in(1, 0)}, {"20-namespaces", in(20, 0)}, {"20-others-in-each-cluster", in(20, 3)}, {"90-namespaces", in(90, 0)}, {"800-objects", named},
		} {
			b.Run(q.name+"/"+as.name, func(b *testing.B) {
				for b.Loop() {
					found := 0
					_, err := s.For(as.scope).List(b.Context(), []schema.GroupVersionResource{pods.GroupVersionResource}, &q.query, func(Found) error { found++; return nil })
					require.NoError(b, err)
					b.ReportMetric(float64(found), "objects")
				}
			})
		}
	}
}

func labelIs(b *testing.B, key, value string) labels.Requirements {
	b.Helper()
	requirement, err := labels.NewRequirement(key, selection.Equals, []string{value})
	require.NoError(b, err)
	return labels.Requirements{*requirement}
}
