// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/handler"
)

// liar is an API service of others. It lies about everything but the group-version that it serves.
type liar struct {
	backend
	serves *schema.GroupVersion
}

func (l liar) Limited() bool                      { return true }
func (l liar) Serves(gv schema.GroupVersion) bool { return gv == *l.serves }

const liarDocument = `{"swagger":"2.0","info":{"title":"Leg","version":"1"},
	"paths":{"/apis/wardle.example.com/":{},"/apis/wardle.example.com/v1/flunders":{"get":{"responses":{"200":{"description":"liar"}}}},"/apis/wardle.example.com/v2/flunders":{},
		"/api/":{"get":{"responses":{"200":{"description":"liar"}}}},"/api/v1/evil":{},"/apis/apps/v1/evil":{},"/apis/evil.example.com/":{},"/apis/":{},"/version/":{"get":{"responses":{"200":{"description":"liar"}}}},"/evil":{}},
	"definitions":{"Pod":{"type":"string"},
		"Flunder":{"type":"object","x-kubernetes-group-version-kind":[{"group":"wardle.example.com","kind":"Flunder","version":"v1"}]},
		"Spec":{"type":"object"},
		"zzz":{"type":"object","description":"a false Pod","x-kubernetes-group-version-kind":[{"group":"wardle.example.com","kind":"Flunder","version":"v1"},{"group":"","kind":"Pod","version":"v1"}]}}}`

const liarIndex = `{"paths":{"api/v1":{"serverRelativeURL":"liar"},"apis":{"serverRelativeURL":"liar"},"version":{"serverRelativeURL":"liar"},"evil":{"serverRelativeURL":"liar"},
	"apis/apps":{"serverRelativeURL":"liar"},"apis/apps/v1":{"serverRelativeURL":"liar"},
	"apis/wardle.example.com":{"serverRelativeURL":"liar"},"apis/wardle.example.com/v1":{"serverRelativeURL":"liar"},"apis/wardle.example.com/v2":{"serverRelativeURL":"liar"}}}`

func kindsOf(t *testing.T, definition map[string]any) int {
	t.Helper()
	kinds, _ := definition[kindsExtension].([]any)
	return len(kinds)
}

func TestAServiceOfOthersDocumentsOnlyWhatItServes(t *testing.T) {
	served := schema.GroupVersion{Group: "wardle.example.com", Version: "v1"}
	all := func(core, of http.RoundTripper) []Backend {
		return []Backend{backend{core}, liar{backend{of}, &served}}
	}
	document := func(of string) *server { return &server{document: of, etag: `"1"`} }
	own := []string{"/apis/wardle.example.com/", "/apis/wardle.example.com/v1/flunders"}

	t.Run("v2 in JSON", func(t *testing.T) {
		v2 := NewV2(all(document(coreDocument), document(liarDocument)), http.NotFoundHandler())
		before := get(t, v2)
		got := parse(t, before.Body.Bytes())
		assert.ElementsMatch(t, append([]string{"/api/", "/version/"}, own...), keys(got.Paths))
		assert.Empty(t, got.Paths["/version/"], "core's")
		assert.Equal(t, "object", got.Definitions["Pod"]["type"], "core's")
		assert.Equal(t, 1, kindsOf(t, got.Definitions["Flunder"]))
		assert.Contains(t, got.Definitions, "Spec")
		assert.Equal(t, "a false Pod", got.Definitions["zzz"]["description"], "others may refer to it")
		assert.Zero(t, kindsOf(t, got.Definitions["zzz"]), "kinds of the false Pod")

		served.Version = "v2"
		defer func() { served.Version = "v1" }()
		after := get(t, v2)
		assert.NotEqual(t, before.Header().Get("Etag"), after.Header().Get("Etag"))
		assert.ElementsMatch(t, []string{"/api/", "/version/", "/apis/wardle.example.com/", "/apis/wardle.example.com/v2/flunders"}, keys(parse(t, after.Body.Bytes()).Paths))
	})

	t.Run("v2 in protobuf", func(t *testing.T) {
		binary := func(text string) *server {
			t.Helper()
			message, err := handler.ToProtoBinary([]byte(text))
			require.NoError(t, err)
			return document(string(message))
		}
		answer := get(t, NewV2(all(binary(coreDocument), binary(liarDocument)), http.NotFoundHandler()), "Accept", mediaProtobufOld)
		require.Equal(t, http.StatusOK, answer.Code)
		var got openapi_v2.Document
		require.NoError(t, proto.Unmarshal(answer.Body.Bytes(), &got))
		var paths []string
		for _, path := range got.GetPaths().GetPath() {
			paths = append(paths, path.GetName())
		}
		assert.ElementsMatch(t, append([]string{"/api/", "/version/"}, own...), paths)
		kinds := map[string]int{}
		for _, definition := range got.GetDefinitions().GetAdditionalProperties() {
			kinds[definition.GetName()] = len(definition.GetValue().GetVendorExtension())
		}
		assert.Equal(t, map[string]int{"Meta": 1, "Pod": 0, "Flunder": 1, "Spec": 0, "zzz": 0}, kinds, "definitions, and how many extensions each has")
	})

	t.Run("v3", func(t *testing.T) {
		core := document(`{"paths":{"api/v1":{"serverRelativeURL":"core"},"version":{"serverRelativeURL":"core"}}}`)
		w := httptest.NewRecorder()
		NewV3(all(core, document(liarIndex)), http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, pathV3, nil))
		var index struct {
			Paths map[string]struct{ ServerRelativeURL string }
		}
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &index))
		from := map[string]string{}
		for name, entry := range index.Paths {
			from[name] = entry.ServerRelativeURL
		}
		assert.Equal(t, map[string]string{"api/v1": "core", "version": "core", "apis/wardle.example.com": "liar", "apis/wardle.example.com/v1": "liar"}, from)
	})

	t.Run("while core is away", func(t *testing.T) {
		w := httptest.NewRecorder()
		NewV3(all(&server{down: true}, document(liarIndex)), http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, pathV3, nil))
		assert.NotContains(t, w.Body.String(), `"api/v1"`)
		assert.NotContains(t, w.Body.String(), `"apis/apps`)
	})
}

func TestKindsAreReadAsClientsReadThem(t *testing.T) {
	l := limits{shown: map[schema.GroupVersion]bool{{Group: "wardle.example.com", Version: "v1"}: true}}
	for text, want := range map[string]bool{
		`[{"group":"wardle.example.com","version":"v1","kind":"Flunder"}]`: true,
		`[]`: true,
		`[{"group":"apps","version":"v1","kind":"Deployment"}]`:                                                 false,
		`[{"group":"wardle.example.com","version":"v1","kind":"A"},{"group":"apps","version":"v1","kind":"B"}]`: false,
		`[{"group":"apps","version":"v1","kind":"Deployment","Group":"wardle.example.com","Version":"v1"}]`:     false,
		`[{"Group":"wardle.example.com","Version":"v1","kind":"Deployment"}]`:                                   false,
		`[{"group":"wardle.example.com","version":{"v1":true},"kind":"Flunder"}]`:                               false,
		`{"group":"wardle.example.com","version":"v1","kind":"Flunder"}`:                                        false,
		`[{"group":"wardle.example.com","version":"v1","kind":"` + strings.Repeat("a", maxKinds) + `"}]`:        false,
	} {
		assert.Equal(t, want, l.kinds([]byte(text), json.Unmarshal), "%.200s", text)
		assert.Equal(t, want, l.kinds([]byte(text), unmarshalYAML), "%.200s in YAML", text)
	}
}

// TestAliasesInYAMLTakeNoMemory: 16,000 aliases of 30 KiB are 64 KiB of YAML, and 480 MiB of JSON.
func TestAliasesInYAMLTakeNoMemory(t *testing.T) {
	l := limits{shown: map[schema.GroupVersion]bool{{Group: "wardle.example.com", Version: "v1"}: true}}
	text := `[&a {group: wardle.example.com, version: v1, kind: "` + strings.Repeat("a", 30<<10) + `"}`
	text += strings.Repeat(",*a", (maxKinds-len(text))/3-1) + "]"
	require.Less(t, len(text), maxKinds)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	assert.False(t, l.kinds([]byte(text), unmarshalYAML))
	runtime.ReadMemStats(&after)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20), "bytes")
}

// FuzzLimits limits whatever a service may send. What is left is about what it serves, and is a document.
func FuzzLimits(f *testing.F) {
	binary, err := handler.ToProtoBinary([]byte(liarDocument))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(liarDocument), binary)
	f.Add([]byte(`{"paths":{"/apis/wardle.example.com/v1":1},"definitions":{"a":{"x-kubernetes-group-version-kind":1}}}`), []byte{0x42, 0x00, 0x4a, 0x00})
	serves := func(gv schema.GroupVersion) bool { return gv.Group == "wardle.example.com" }
	f.Fuzz(func(t *testing.T, text, message []byte) {
		for name, one := range map[string]struct {
			form
			document []byte
		}{"JSON": {formJSON, text}, "protobuf": {formProtobuf, message}} {
			named, err := one.named(one.document)
			if err != nil {
				continue
			}
			limited, err := one.limit(one.document, newLimits(named, serves))
			if err != nil {
				continue
			}
			left, err := one.named(limited)
			require.NoError(t, err, name)
			for _, gv := range left {
				require.Equal(t, "wardle.example.com", gv.Group, name)
			}
			again, err := one.limit(limited, newLimits(left, serves))
			require.NoError(t, err, name)
			require.LessOrEqual(t, len(again), len(limited)+64, name)
		}
	})
}
