// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"encoding/json"
	"strings"
	"testing"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"k8s.io/kube-openapi/pkg/handler"
)

const coreDocument = `{"swagger":"2.0","info":{"title":"Kubernetes","version":"1"},
	"paths":{"/api/":{},"/version/":{}},
	"definitions":{"Meta":{"type":"object","x-kubernetes-group-version-kind":[{"group":"a","kind":"K","version":"v1"},{"group":"b","kind":"K","version":"v1"}]},"Pod":{"type":"object"}},
	"parameters":{"p-core":{"name":"p","in":"query","type":"string"}}}`

const extensionsDocument = `{"swagger":"2.0","info":{"title":"Extensions","version":"1"},
	"paths":{"/apis/example.com/":{},"/version/":{}},
	"definitions":{"Meta":{"type":"object","x-kubernetes-group-version-kind":[{"group":"b","kind":"K","version":"v1"}]},"Foo":{"properties":{"meta":{"$ref":"#/definitions/Meta"}}}}}`

const localDocument = `{"swagger":"2.0","info":{"title":"Local","version":"1"},
	"paths":{"/apis/wardle/":{"get":{"responses":{"200":{"description":"OK","schema":{"$ref":"#/definitions/Pod"}}}}}},
	"definitions":{"Pod":{"type":"object","description":"another one"},"Meta":{"type":"object"},"Flunder":{"properties":{"pod":{"$ref":"#/definitions/Pod"}}}}}`

type spec struct {
	Info        map[string]string
	Paths       map[string]any
	Definitions map[string]map[string]any
	Parameters  map[string]any
}

func parse(t *testing.T, document []byte) spec {
	t.Helper()
	var s spec
	if err := json.Unmarshal(document, &s); err != nil {
		t.Fatalf("the merged document is not JSON: %v\n%s", err, document)
	}
	return s
}

func TestMergeKeepsEveryNameOnceAndCoreFirst(t *testing.T) {
	merged, err := mergeJSON([][]byte{[]byte(coreDocument), []byte(extensionsDocument)}, []byte(localDocument))
	require.NoError(t, err)
	got := parse(t, merged)
	assert.Empty(t, cmp.Diff([]string{"/api/", "/apis/example.com/", "/apis/wardle/", "/version/"}, keys(got.Paths)), "paths")
	if got.Info["title"] != "Kubernetes" || got.Parameters["p-core"] == nil {
		t.Errorf("an entry that only core has is lost: %s", merged)
	}
	if kinds, _ := got.Definitions["Meta"]["x-kubernetes-group-version-kind"].([]any); len(kinds) != 2 {
		t.Errorf("Meta is not core's: %v", got.Definitions["Meta"])
	}
}

func TestMergeRenamesLocalDefinitionsThatDiffer(t *testing.T) {
	merged, err := mergeJSON([][]byte{[]byte(coreDocument), nil}, []byte(localDocument))
	require.NoError(t, err)
	got := parse(t, merged)
	if got.Definitions["Pod"]["description"] != nil || got.Definitions["Pod_v2"]["description"] != "another one" {
		t.Errorf("definitions: %v", got.Definitions)
	}
	if _, renamed := got.Definitions["Meta_v2"]; renamed {
		t.Error("Meta was renamed although it differs in its kinds only")
	}
	if n := strings.Count(string(merged), `"#/definitions/Pod_v2"`); n != 2 {
		t.Errorf("%d references follow the new name, want 2: %s", n, merged)
	}
}

func TestMergeWithoutExtensionsIsCore(t *testing.T) {
	merged, err := mergeJSON([][]byte{[]byte(coreDocument), nil}, nil)
	require.NoError(t, err)
	assert.Empty(t, cmp.Diff(parse(t, []byte(coreDocument)), parse(t, merged)))
}

func TestProtobufMergeSaysTheSameAsJSON(t *testing.T) {
	var parts [][]byte
	for _, document := range []string{coreDocument, extensionsDocument} {
		part, err := handler.ToProtoBinary([]byte(document))
		require.NoError(t, err)
		parts = append(parts, part)
	}
	merged, err := mergeProtobuf(parts...)
	require.NoError(t, err)
	got := &openapi_v2.Document{}
	require.NoError(t, proto.Unmarshal(merged, got))
	mergedJSON, err := mergeJSON([][]byte{[]byte(coreDocument), []byte(extensionsDocument)}, nil)
	require.NoError(t, err)
	want := parse(t, mergedJSON)

	paths, definitions := map[string]any{}, map[string]any{}
	for _, path := range got.GetPaths().GetPath() {
		paths[path.GetName()] = nil
	}
	for _, definition := range got.GetDefinitions().GetAdditionalProperties() {
		if _, twice := definitions[definition.GetName()]; twice {
			t.Errorf("%s is there twice", definition.GetName())
		}
		definitions[definition.GetName()] = nil
	}
	assert.Empty(t, cmp.Diff(keys(want.Paths), keys(paths)), "paths (-json +protobuf)")
	assert.Empty(t, cmp.Diff(keys(want.Definitions), keys(definitions)), "definitions (-json +protobuf)")
	assert.Equal(t, "Kubernetes", got.GetInfo().GetTitle(), "title")
}

func TestMergeRefusesWhatIsNoDocument(t *testing.T) {
	if _, err := mergeJSON([][]byte{[]byte(`{`), nil}, nil); err == nil {
		t.Error("a broken JSON document was merged")
	}
	if _, err := mergeProtobuf([]byte{0x42, 0x7f}); err == nil {
		t.Error("a truncated protobuf document was merged")
	}
}
