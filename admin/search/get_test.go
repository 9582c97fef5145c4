// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"testing"

	"al.essio.dev/pkg/shellescape"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func TestSearchGetStandsForACommand(t *testing.T) {
	const domain, all = "search.clusterpedia.io/", -1 // 0 is what a test does not give
	for _, tc := range []struct {
		name, want, wrong string
		what              []string
		counted           bool
		Question
	}{
		{name: "everywhere", what: []string{"pods"}, want: "kubectl --cluster clusterpedia get pods -A"},
		{
			name: "the pods of a deployment", what: []string{"pods"}, Question: Question{Owner: "deployment/web", Fuzzy: "ngin"},
			want: "kubectl --cluster clusterpedia get pods -A -l " + domain + "fuzzy-name=ngin," + domain + "owner-name=web," + domain + "owner-gr=deployments.apps," + domain + "owner-seniority=1",
		},
		{
			name: "its replica sets", what: []string{"rs"}, Question: Question{Owner: "deploy/web"},
			want: "kubectl --cluster clusterpedia get rs -A -l " + domain + "owner-name=web," + domain + "owner-gr=deployments.apps",
		},
		{
			name: "children themselves", what: []string{"pods"}, Question: Question{Owner: "deploy/web"}, counted: true,
			want: "kubectl --cluster clusterpedia get pods -A -l " + domain + "owner-name=web," + domain + "owner-gr=deployments.apps",
		},
		{
			name: "an owner of its own kind", what: []string{"pods"}, Question: Question{Owner: "boats.example.com/b", Generations: 2},
			want: "kubectl --cluster clusterpedia get pods -A -l " + domain + "owner-name=b," + domain + "owner-gr=boats.example.com," + domain + "owner-seniority=2",
		},
		{
			name: "everything else", what: []string{"pods", "a", "b"},
			Question: Question{Limit: 5, Cluster: "east", Namespace: "n", Selector: "app=it's", Fields: "spec.containers[].image=x", Order: "created_at_desc,name", Output: "yaml"},
			want: "kubectl --cluster east get pods -n n -l 'app=it'\"'\"'s," + domain + "orderby in (created_at_desc,name)," + domain + "names in (a,b)'" +
				" --field-selector 'spec.containers[].image=x' -o yaml --chunk-size 5",
		},
		{name: "what changes", what: []string{"pods", "a"}, Question: Question{Watch: true}, want: "kubectl --cluster clusterpedia get pods -A -l '" + domain + "names in (a)' -w"},
		{
			name: "texts", what: []string{"pods"}, Question: Question{Fields: "a=b", Texts: []string{"x y", "z,(\""}, In: []string{"metadata.name", "spec.a[].b"}},
			want: "kubectl --cluster clusterpedia get pods -A --field-selector 'a=b,metadata.name|spec.a[].b icontains (x\\ y, z\\,\\(\\\")'",
		},
		{name: "an order by a field", what: []string{"pods"}, Question: Question{Order: "spec.a.b_desc, name"}, want: "kubectl --cluster clusterpedia get pods -A -l '" + domain + "orderby in (spec.a.b_desc, name)'"},
		{name: "an order that is no label", what: []string{"pods"}, Question: Question{Order: "spec.a[0].b"}, wrong: "the parameter orderby of a URL takes any field"},
		{name: "changes in an order", what: []string{"pods"}, Question: Question{Watch: true, Order: "name"}, wrong: "leave these out"},
		{name: "changes of what is owned", what: []string{"pods"}, Question: Question{Watch: true, Owner: "deploy/web"}, wrong: "leave these out"},
		{name: "no limit", what: []string{"pods"}, Question: Question{Limit: all}, want: "kubectl --cluster clusterpedia get pods -A --chunk-size 0"},
		{name: "a limit below zero", what: []string{"pods"}, Question: Question{Limit: -2}, wrong: "or 0 for all"},
		{name: "no name", what: []string{"pods"}, Question: Question{Owner: "deployment"}, wrong: "write TYPE/NAME"},
		{name: "an unknown type", what: []string{"pods"}, Question: Question{Owner: "boat/b"}, wrong: "boats.example.com/b"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.Cluster == "" {
				tc.Cluster = AllClusters
			}
			switch tc.Limit {
			case 0:
				tc.Limit = KubectlLimit
			case all:
				tc.Limit = 0
			}
			command, err := tc.Command(tc.what, tc.counted)
			if tc.wrong != "" {
				require.ErrorContains(t, err, tc.wrong)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.want, "kubectl "+shellescape.QuoteCommand(command))
		})
	}
}

func TestSearchGetNeedsAnEntry(t *testing.T) {
	config := clientcmdapi.NewConfig()
	q := Question{Cluster: "east"}
	require.ErrorContains(t, q.Check(config), "run tripod search kubeconfig")
	config.Clusters["east"] = &clientcmdapi.Cluster{Server: "https://east.example.com"}
	require.ErrorContains(t, q.Check(config), "run tripod search kubeconfig")
	config.Clusters["east"].Server = "https://hub.example.com" + Path + "/clusters/east"
	require.NoError(t, q.Check(config))
}
