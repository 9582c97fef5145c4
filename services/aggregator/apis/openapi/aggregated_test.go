// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/handler"
)

var boats = schema.GroupVersion{Group: "example.com", Version: "v1"}

func swagger(paths, definitions string) string {
	return `{"swagger":"2.0","info":{"title":"x","version":"1"},"paths":{` + paths + `},"definitions":{` + definitions + `}}`
}

const boatsPath = `"/apis/example.com/v1/boats":{"get":{"responses":{"200":{"description":"OK","schema":{"$ref":"#/definitions/Boat"}}}}}`

// TestADocumentThatWouldEndTheAggregator has documents of aggregated API servers that make libraries panic, or fail for all servers.
func TestADocumentThatWouldEndTheAggregator(t *testing.T) {
	for name, document := range map[string]string{
		"no responses":                   swagger(`"/apis/example.com/v1/boats":{"get":{}}`, ""),
		"a name with a wrong escape":     swagger(boatsPath, `"Boat":{},"%zz":{}`),
		"a name with a quote":            swagger(boatsPath, `"Boat":{},"a\"b":{}`),
		"a parameter with a wrong name":  strings.TrimSuffix(swagger(boatsPath, `"Boat":{}`), "}") + `,"parameters":{"%zz":{"name":"a","in":"query","type":"string"}}}`,
		"no object":                      `[]`,
		"definitions that are a list":    `{"swagger":"2.0","definitions":[]}`,
		"a definition that is a text":    swagger(boatsPath, `"Boat":"x"`),
		"a type that is none":            swagger(boatsPath, `"Boat":{"type":5}`),
		"what protobuf does not have":    swagger(`"/apis/example.com/v1/boats":{"get":{"responses":{"x":{"description":"OK"}},"schemes":["carrier pigeon"],"parameters":[{"in":"nowhere"}]}}`, ""),
		"a parameter that is of no kind": swagger(`"/apis/example.com/v1/boats":{"parameters":[{"name":"a","in":"nowhere"}]}`, ""),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := OfGroupVersion([]byte(document), boats)
			assert.Error(t, err)
		})
	}
	limited, err := OfGroupVersion([]byte(swagger(boatsPath, `"Boat":{"type":"object"}`)), boats)
	require.NoError(t, err)
	assert.JSONEq(t, swagger(boatsPath, `"Boat":{"type":"object"}`), string(limited))
}

func TestAnAggregatedServerNamesItsOwnKindsOnly(t *testing.T) {
	const own = `{"group":"example.com","version":"v1","kind":"Boat"}`
	for kinds, want := range map[string]string{
		`[` + own + `]`: `[` + own + `]`,
		`[` + own + `,{"group":"","version":"v1","kind":"Pod"}]`: `[` + own + `]`,
		`[{"group":"example.com","version":"v2","kind":"Boat"}]`: ``,
		`"Boat"`:                     ``,
		`[` + own + `,{"Group":""}]`: `[` + own + `]`,
		`[{"group":"example.com","version":"v1","kind":"Boat","Group":"","Version":"v1","Kind":"Pod"}]`: ``,
		`[` + own + `,"x"]`: ``,
		`{"group":"example.com","version":"v1","kind":"Boat"}`: ``,
	} {
		limited, err := OfGroupVersion([]byte(swagger(boatsPath, `"Boat":{"x-kubernetes-group-version-kind":`+kinds+`}`)), boats)
		require.NoError(t, err, kinds)
		if want != "" {
			want = `"x-kubernetes-group-version-kind":` + want
		}
		assert.JSONEq(t, swagger(boatsPath, `"Boat":{`+want+`}`), string(limited), kinds)
	}
}

// TestConflictsRenameTheDefinitionsOfAggregatedServers has documents that name definitions as others do, and have these names elsewhere before.
func TestConflictsRenameTheDefinitionsOfAggregatedServers(t *testing.T) {
	core := `{"info":{},"definitions":{"Meta":{"type":"object"},"Same":{"type":"string"}},"parameters":{"p":{"name":"p","in":"query","type":"string"}},"paths":{}}`
	others := `{"definitions":{"Ship":{"description":"of others"},"Sea":{"description":"of others"}},"paths":{"/apis/ships":{"x":{"$ref":"#/definitions/Ship"}}}}`
	local := `{"info":{"Meta":{"$ref":"#/definitions/Meta"}},"paths":{"/apis/boats":{"Meta":1,"a":{"$ref":"#/definitions/Meta"},"b":{"$ref":"#/definitions/Ship"},` +
		`"c":{"$ref":"#/definitions/Same"},"d":{"$ref":"#/parameters/p"},"e":"#/definitions/Meta and more"}},` +
		`"definitions":{"Meta":{"type":"integer","properties":{"Ship":{"$ref":"#/definitions/Ship"},"next":{"$ref":"#/definitions/MetaMore"}}},"MetaMore":{},` +
		`"Same":{"type":"string"},"Ship":{"description":"a boat"},"Ship_v2":{}},"parameters":{"p":{"name":"q","in":"query","type":"string"}}}`
	merged, err := mergeJSON([][]byte{[]byte(core), []byte(others)}, []byte(local))
	require.NoError(t, err)
	assert.JSONEq(t, `{"info":{},"paths":{"/apis/ships":{"x":{"$ref":"#/definitions/Ship"}},`+
		`"/apis/boats":{"Meta":1,"a":{"$ref":"#/definitions/Meta_v2"},"b":{"$ref":"#/definitions/Ship_v3"},"c":{"$ref":"#/definitions/Same"},`+
		`"d":{"$ref":"#/parameters/p_v2"},"e":"#/definitions/Meta and more"}},`+
		`"definitions":{"Meta":{"type":"object"},"Same":{"type":"string"},"Ship":{"description":"of others"},"Sea":{"description":"of others"},`+
		`"Meta_v2":{"type":"integer","properties":{"Ship":{"$ref":"#/definitions/Ship_v3"},"next":{"$ref":"#/definitions/MetaMore"}}},"MetaMore":{},`+
		`"Ship_v3":{"description":"a boat"},"Ship_v2":{}},`+
		`"parameters":{"p":{"name":"p","in":"query","type":"string"},"p_v2":{"name":"q","in":"query","type":"string"}}}`, string(merged))
}

// TestBothFormsRenameTheSame compares the names in both forms of the merged document.
func TestBothFormsRenameTheSame(t *testing.T) {
	core, others := swagger("", `"Meta":{"type":"object"}`), swagger("", `"Ship":{"description":"of others"}`)
	local := swagger(boatsPath, `"Boat":{"$ref":"#/definitions/Meta"},"Meta":{"type":"integer"},"Ship":{"$ref":"#/definitions/Ship"}`)
	merged, err := mergeJSON([][]byte{[]byte(core), []byte(others)}, []byte(local))
	require.NoError(t, err)
	want, err := handler.ToProtoBinary(merged)
	require.NoError(t, err)

	asProtobuf := func(text string) []byte {
		document, err := handler.ToProtoBinary([]byte(text))
		require.NoError(t, err)
		return document
	}
	v2 := &V2{}
	v2.json.backends = []*part{{}}
	coreVersion, err := readWhole(strings.NewReader(core), nil)
	require.NoError(t, err)
	v2.json.backends[0].last.Store(coreVersion)
	got, err := v2.mergeProtobuf([][]byte{asProtobuf(core), asProtobuf(others)}, []byte(local))
	require.NoError(t, err)
	names := func(document []byte) map[string]map[string]bool {
		all := map[string]map[string]bool{"definitions": {}, "parameters": {}}
		require.NoError(t, addNames(all, document))
		return all
	}
	assert.Equal(t, names(want), names(got))
	assert.Contains(t, string(got), "#/definitions/Ship_v2")
	assert.Contains(t, string(got), "#/definitions/Meta_v2")
}

// TestAWrongDocumentOfAggregatedServersHidesNoOther has the aggregator itself answer with something that cannot be merged.
func TestAWrongDocumentOfAggregatedServersHidesNoOther(t *testing.T) {
	d := &document{merge: mergeJSON, form: formJSON, backends: []*part{{}}}
	var versions []*version
	for _, text := range []string{swagger("", `"Meta":{}`), `{"definitions":5}`} {
		v, err := readWhole(strings.NewReader(text), nil)
		require.NoError(t, err)
		versions = append(versions, v)
	}
	require.NoError(t, d.remake(versions, make([]limits, 2)))
	text, err := decompress(d.compressed)
	require.NoError(t, err)
	assert.True(t, json.Valid(text))
	assert.Contains(t, string(text), `"Meta"`)
}

func TestAnAggregatedServerIndexesItsOwnDocumentsOnly(t *testing.T) {
	index := func(names ...string) string {
		var all []string
		for _, name := range names {
			all = append(all, `"`+name+`":{"serverRelativeURL":"/openapi/v3/`+name+`?hash=A&b=c"}`)
		}
		return `{"paths":{` + strings.Join(all, ",") + `}}`
	}
	names := []string{"version", "apis", "api/v1", "apis/apps/v1", "apis/example.com", "apis/example.com/v1", "apis/example.com/v2", "apis/example.com/v1/x"}
	limited, err := IndexOfGroupVersion([]byte(index(names...)), boats)
	require.NoError(t, err)
	assert.JSONEq(t, index("apis/example.com", "apis/example.com/v1"), string(limited))
	for _, elsewhere := range []string{"https://example.com/openapi/v3/apis/example.com/v1", "/api/v1/secrets", "/openapi/v3/apis/apps/v1?hash=A"} {
		limited, err = IndexOfGroupVersion([]byte(`{"paths":{"apis/example.com/v1":{"serverRelativeURL":"`+elsewhere+`"}}}`), boats)
		require.NoError(t, err)
		assert.JSONEq(t, `{"paths":{}}`, string(limited))
	}
	_, err = IndexOfGroupVersion([]byte(`[]`), boats)
	assert.Error(t, err)
}
