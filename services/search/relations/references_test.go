// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package relations

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
)

func TestReferencesAreBounded(t *testing.T) {
	volumes := func(n int) []byte {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`{"configMap": {"name": "c-%d"}}`, i))
		}
		return []byte(`{"spec": {"volumes": [` + strings.Join(all, ",") + `], "serviceAccountName": "web"}}`)
	}
	all, complete := References(pods, "shop", volumes(MaxReferences-1), nil)
	assert.Len(t, all, MaxReferences)
	assert.True(t, complete)
	all, complete = References(pods, "shop", volumes(MaxReferences+1), nil)
	assert.Len(t, all, MaxReferences)
	assert.False(t, complete)
	all, complete = References(pods, "shop", []byte(`{"spec": {"nodeName": "`+strings.Repeat("n", maxName+1)+`", "serviceAccountName": ["a"], "volumes": [{"configMap": {"name": "`+strings.Repeat("c", maxReference)+`"}}]}}`), nil)
	assert.Empty(t, all, "no names of objects")
	assert.True(t, complete)
	all, _ = References(pods, "shop", volumes(3), []v1beta1.RelationType{v1beta1.RelationServiceAccount})
	assert.Len(t, all, 1)

	var owners []string
	for i := range MaxOwners + 1 {
		owners = append(owners, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "name": "p-%d", "uid": "%d"}`, i, i))
	}
	of, complete := Owners([]byte(`{"metadata": {"ownerReferences": [` + strings.Join(owners, ",") + `]}}`))
	assert.Len(t, of, MaxOwners)
	assert.False(t, complete)
}

func TestSelectorsThatCannotBeMeant(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat(`{"key": "a", "operator": "Exists"},`, maxRequirements+1), ",")
	for text, readable := range map[string]bool{
		`{"spec": {}}`: true, `{"spec": {"podSelector": null}}`: true, `{"spec": {"podSelector": {"matchExpressions": [` + many + `]}}}`: false,
		`{"spec": {"podSelector": {"matchLabels": {"a": "` + strings.Repeat("x", maxSelector) + `"}}}}`: false, `{"spec": {"podSelector": "a"}}`: false,
		`{"spec": {"podSelector": {"matchLabels": {"not a label!": "x"}}}}`: false,
	} {
		selector, _, got := Selector(Selecting[1], []byte(text))
		assert.Equal(t, readable, got, "%.100s", text)
		assert.Nil(t, selector, "%.100s", text)
	}
}

// FuzzReferences has a cluster write any object. What is read of it is bounded, and the other end of each reference finds it again.
func FuzzReferences(f *testing.F) {
	resources := slices.SortedFunc(maps.Keys(rules), func(a, b schema.GroupResource) int { return strings.Compare(a.String(), b.String()) })
	for _, text := range []string{
		`{}`, `[]`, `{"spec": {"volumes": [{"configMap": {"name": "a"}}], "nodeName": "n", "template": {"spec": {"serviceAccountName": "x"}}}}`,
		`{"roleRef": {"name": "a", "kind": "Role"}, "subjects": [{"kind": "ServiceAccount", "name": "b", "namespace": "c"}]}`, `{"spec": {"selector": {"a": "b"}, "scaleTargetRef": {"kind": "X", "apiVersion": "a/b/c", "name": "\ud800"}}}`,
		`{"metadata": {"labels": {"kubernetes.io/service-name": "web"}, "ownerReferences": [{"name": "a", "uid": "b", "kind": "c", "apiVersion": "d/e"}, 7]}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !json.Valid(text) {
			return
		}
		Owners(text)
		Labels(text)
		for _, resource := range Selecting {
			Selector(resource, text)
		}
		for _, resource := range resources {
			all, _ := References(resource, "shop", text, nil)
			assert.LessOrEqual(t, len(all), MaxReferences)
			for _, r := range all {
				assert.True(t, r.Name != "" && len(r.Name) <= maxName)
				back, _ := ReferencesTo(resource, "shop", text, Subject{Resource: r.Resource, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name})
				assert.True(t, slices.ContainsFunc(back, func(b Reference) bool { return b.Type == r.Type && slices.Equal(b.Fields, r.Fields) }), "%v", r)
			}
		}
	})
}
