// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
)

// TestCountsAreThoseOfTheReader holds for lists and collections.
func TestCountsAreThoseOfTheReader(t *testing.T) {
	c := newCluster(t)
	c.allow(t, "one", "default", rule("list", "pods", "web-2"))
	c.allow(t, "inside", "default", rule("list", "pods"))
	c.allow(t, "elsewhere", "other", rule("list", "pods"))
	c.grants = []string{"admin list resources", "admin list resources east", "admin get collectionresources any"}
	group := func(count int64, values ...string) v1beta1.CountedGroup {
		return v1beta1.CountedGroup{Values: values, Count: count}
	}
	for _, test := range []struct {
		user, path string
		want       []v1beta1.CountedGroup
		total      int64
	}{
		{"admin", "resources/apis/apps/v1/deployments?groupBy=cluster", []v1beta1.CountedGroup{group(2, "east"), group(1, "west")}, 3},
		{"admin", "resources/apis/apps/v1/deployments?groupBy=cluster&limit=1", []v1beta1.CountedGroup{group(2, "east")}, 3},
		{"admin", "resources/clusters/east/apis/apps/v1/deployments?groupBy=spec.x,.spec", []v1beta1.CountedGroup{group(2, "y", "(object or list)")}, 2},
		{"admin", "collectionresources/any?groups=apps&resources=/pods,/nodes&groupBy=kind,namespace", []v1beta1.CountedGroup{group(3, "Deployment", "default"), group(2, "Pod", "default"), group(1, "Node", "")}, 6},
		{"admin", "collectionresources/any?groups=none.example.com&groupBy=kind", []v1beta1.CountedGroup{}, 0},
		{"inside", "resources/api/v1/pods?groupBy=cluster,.none", []v1beta1.CountedGroup{group(2, "west", "")}, 2},
		{"one", "resources/api/v1/pods?groupBy=cluster", []v1beta1.CountedGroup{group(1, "west")}, 1},
		{"one", "collectionresources/any?groups=apps&resources=/pods&groupBy=resource", []v1beta1.CountedGroup{group(1, "pods")}, 1},
		{"elsewhere", "resources/api/v1/pods?groupBy=cluster", []v1beta1.CountedGroup{}, 0},
	} {
		answer, _ := c.as(t, test.user, test.path)
		require.Equal(t, http.StatusOK, answer.Code, "%s: %s: %s", test.user, test.path, answer.Body)
		var got v1beta1.ObjectCounts
		require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &got))
		assert.Equal(t, test.want, got.Groups, "%s: %s", test.user, test.path)
		assert.Equal(t, test.total, got.Total, "%s: %s", test.user, test.path)
		if test.path == "resources/apis/apps/v1/deployments?groupBy=cluster&limit=1" {
			assert.Equal(t, []int64{1, 1}, []int64{got.OtherGroups, got.OtherCount})
		} else {
			assert.Zero(t, got.OtherGroups+got.OtherCount)
		}
	}
	c.grants = append(c.grants, "admin watch resources")
	for path, code := range map[string]int{
		"resources/api/v1/pods?groupBy=name": 400, "resources/api/v1/pods?groupBy=cluster&watch=true": 400, "resources/api/v1/none?groupBy=cluster": 404,
	} {
		answer, _ := c.as(t, "admin", path)
		assert.Equal(t, code, answer.Code, "%s: %s", path, answer.Body)
	}
	req := httptest.NewRequest(http.MethodGet, "/apis/clusterpedia.io/v1beta1/resources/apis/apps/v1/deployments?limit=1&labelSelector=search.clusterpedia.io/group-by%20in%20(cluster,namespace)", nil)
	req.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	answer := httptest.NewRecorder()
	warnings := c.send(t, "admin", req, answer)
	assert.Equal(t, []string{"1 more groups have 1 objects"}, warnings)
	var of metav1.Table
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &of))
	require.Len(t, of.Rows, 1)
	assert.Equal(t, []any{float64(2), "east", "default"}, of.Rows[0].Cells)
	req.Header.Set("Accept", "application/yaml")
	answer = httptest.NewRecorder()
	c.send(t, "admin", req, answer)
	var got v1beta1.ObjectCounts
	require.NoError(t, yaml.UnmarshalStrict(answer.Body.Bytes(), &got))
	assert.Equal(t, []string{"cluster", "namespace"}, got.GroupBy)
}
