// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package query

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheBoxSaysWhatParametersSay(t *testing.T) {
	t.Parallel()
	for parameters, want := range map[string]string{
		"groups=*": "",
		"resources=/pods&fieldSelector=status.phase%3DFailed":                   "field:status.phase=Failed kind:pods",
		"resources=apps/deployments,/pods&clusters=east, west&limit=5":          "cluster:east cluster:west kind:deployments.apps kind:pods",
		"groups=*&words=shop front&namespaces=a,b&names=x":                      "shop front name:x namespace:a namespace:b",
		"groups=*&words=kind:Pod":                                               `"kind:Pod"`,
		"groups=*&fieldSelector=spec.a in (\"b, c\", d),e%3Df":                  `field:"spec.a in (\"b, c\", d),e=f"`,
		"groups=*&labelSelector=app in (a,b)&ownerUID=u&at=5m":                  `at:5m label:"app in (a,b)" owner:u`,
		"groups=*&orderby=created_at desc,spec.replicas&groupBy=cluster,spec.x": "count:cluster count:spec.x sort:-created_at sort:spec.replicas",
	} {
		values, err := url.ParseQuery(parameters)
		require.NoError(t, err)
		got, can := Of(values)
		assert.True(t, can, parameters)
		assert.Equal(t, want, got.String())
		again := got.Parameters()
		for _, name := range []string{"fieldSelector", "labelSelector", "words", "names", "namespaces", "ownerUID", "at"} {
			assert.Equal(t, values.Get(name), again.Get(name), "%s of %s", name, parameters)
		}
	}
}

func TestTheBoxCannotSayAllParameters(t *testing.T) {
	t.Parallel()
	for _, parameters := range []string{
		"groups=apps", "resources=apps/v1/deployments", "resources=pods", "groups=*&since=2026-01-01", "groups=*&ownerName=x", "groups=*&unknown=x",
		"groups=*&groupBy=metadata.labels['a,b']", "groups=*&fuzzyName=x",
	} {
		values, err := url.ParseQuery(parameters)
		require.NoError(t, err)
		_, can := Of(values)
		assert.False(t, can, parameters)
	}
}
