// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"testing"

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
		question
	}{
		{name: "everywhere", what: []string{"pods"}, want: "kubectl --cluster clusterpedia get pods -A"},
		{
			name: "the pods of a deployment", what: []string{"pods"}, question: question{owner: "deployment/web", fuzzy: "ngin"},
			want: "kubectl --cluster clusterpedia get pods -A -l " + domain + "fuzzy-name=ngin," + domain + "owner-name=web," + domain + "owner-gr=deployments.apps," + domain + "owner-seniority=1",
		},
		{
			name: "its replica sets", what: []string{"rs"}, question: question{owner: "deploy/web"},
			want: "kubectl --cluster clusterpedia get rs -A -l " + domain + "owner-name=web," + domain + "owner-gr=deployments.apps",
		},
		{
			name: "children themselves", what: []string{"pods"}, question: question{owner: "deploy/web"}, counted: true,
			want: "kubectl --cluster clusterpedia get pods -A -l " + domain + "owner-name=web," + domain + "owner-gr=deployments.apps",
		},
		{
			name: "an owner of its own kind", what: []string{"pods"}, question: question{owner: "boats.example.com/b", generations: 2},
			want: "kubectl --cluster clusterpedia get pods -A -l " + domain + "owner-name=b," + domain + "owner-gr=boats.example.com," + domain + "owner-seniority=2",
		},
		{
			name: "everything else", what: []string{"pods", "a", "b"},
			question: question{limit: 5, cluster: "east", namespace: "n", selector: "app=it's", fields: "spec.containers[].image=x", order: "created_at_desc,name", output: "yaml"},
			want: "kubectl --cluster east get pods -n n -l 'app=it'\"'\"'s," + domain + "orderby in (created_at_desc,name)," + domain + "names in (a,b)'" +
				" --field-selector 'spec.containers[].image=x' -o yaml --chunk-size 5",
		},
		{name: "what changes", what: []string{"pods", "a"}, question: question{watch: true}, want: "kubectl --cluster clusterpedia get pods -A -l '" + domain + "names in (a)' -w"},
		{
			name: "texts", what: []string{"pods"}, question: question{fields: "a=b", texts: []string{"x y", "z,(\""}, in: []string{"metadata.name", "spec.a[].b"}},
			want: "kubectl --cluster clusterpedia get pods -A --field-selector 'a=b,metadata.name|spec.a[].b icontains (x\\ y, z\\,\\(\\\")'",
		},
		{name: "an order by a field", what: []string{"pods"}, question: question{order: "spec.a.b_desc, name"}, want: "kubectl --cluster clusterpedia get pods -A -l '" + domain + "orderby in (spec.a.b_desc, name)'"},
		{name: "an order that is no label", what: []string{"pods"}, question: question{order: "spec.a[0].b"}, wrong: "the parameter orderby of a URL takes any field"},
		{name: "changes in an order", what: []string{"pods"}, question: question{watch: true, order: "name"}, wrong: "leave these out"},
		{name: "changes of what is owned", what: []string{"pods"}, question: question{watch: true, owner: "deploy/web"}, wrong: "leave these out"},
		{name: "no limit", what: []string{"pods"}, question: question{limit: all}, want: "kubectl --cluster clusterpedia get pods -A --chunk-size 0"},
		{name: "a limit below zero", what: []string{"pods"}, question: question{limit: -2}, wrong: "or 0 for all"},
		{name: "no name", what: []string{"pods"}, question: question{owner: "deployment"}, wrong: "write TYPE/NAME"},
		{name: "an unknown type", what: []string{"pods"}, question: question{owner: "boat/b"}, wrong: "boats.example.com/b"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.cluster == "" {
				tc.cluster = allClusters
			}
			switch tc.limit {
			case 0:
				tc.limit = kubectlLimit
			case all:
				tc.limit = 0
			}
			command, err := tc.command(tc.what, tc.counted)
			if tc.wrong != "" {
				require.ErrorContains(t, err, tc.wrong)
				return
			}
			require.NoError(t, err)
			var out bytes.Buffer
			sayCommand(&out, command)
			assert.Equal(t, tc.want+"\n", out.String())
		})
	}
}

func TestSearchGetNeedsAnEntry(t *testing.T) {
	config := clientcmdapi.NewConfig()
	q := question{cluster: "east"}
	require.ErrorContains(t, q.check(config), "run tripod search kubeconfig")
	config.Clusters["east"] = &clientcmdapi.Cluster{Server: "https://east.example.com"}
	require.ErrorContains(t, q.check(config), "run tripod search kubeconfig")
	config.Clusters["east"].Server = "https://hub.example.com" + searchPath + "/clusters/east"
	require.NoError(t, q.check(config))
}
