// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/access"
	"github.com/tripod-k8s/tripod/services/search/store/storetest"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

var (
	kindOfNodes = streams.Kind{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, Name: "Node"}
	kindOfRoles = streams.Kind{GroupVersionResource: rbacv1.SchemeGroupVersion.WithResource("roles"), Name: "Role", Namespaced: true}
)

// TestWhatIsRefusedAtTheDoor has objects that parsers read in different ways, or that are not what the API allows.
func TestWhatIsRefusedAtTheDoor(t *testing.T) {
	const identity = `"metadata":{"name":"a","namespace":"default"}`
	within := func(field string) string { return `{"metadata":{"name":"a","namespace":"default",` + field + `}}` }
	for name, test := range map[string]struct {
		text string
		// known is set if it is known which object is wrong.
		known bool
	}{
		"no object":                       {`[]`, false},
		"nothing":                         {`{}`, false},
		"no metadata":                     {`{"metadata":null}`, false},
		"metadata of another type":        {`{"metadata":7}`, false},
		"no name":                         {`{"metadata":{"namespace":"default"}}`, false},
		"no namespace":                    {`{"metadata":{"name":"a"}}`, false},
		"half an object":                  {`{`, false},
		"two objects":                     {`{` + identity + `}{}`, false},
		"a name that is a path":           {`{"metadata":{"name":"a/../b","namespace":"default"}}`, false},
		"a name that is a directory":      {`{"metadata":{"name":"..","namespace":"default"}}`, false},
		"a long name":                     {`{"metadata":{"name":"` + strings.Repeat("x", maxName+1) + `","namespace":"default"}}`, false},
		"a namespace that is none":        {`{"metadata":{"name":"a","namespace":"a/b"}}`, false},
		"two names":                       {`{"metadata":{"name":"a","name":"b","namespace":"default"}}`, false},
		"two metadata":                    {`{` + identity + `,"metadata":{"name":"b","namespace":"default"}}`, false},
		"a name that is no UTF-8":         {"{\"metadata\":{\"name\":\"a\xff\",\"namespace\":\"default\"}}", false},
		"metadata in another case":        {`{` + identity + `,"Metadata":{"name":"b"}}`, true},
		"kind in another case":            {`{` + identity + `,"KIND":"Secret"}`, true},
		"case by folding":                 {`{` + identity + `,"\u212aind":"Secret"}`, true},
		"case by escapes":                 {`{` + identity + `,"metadat\u0041":{}}`, true},
		"a name in another case":          {within(`"Name":"b"`), true},
		"finalizers in another case":      {within(`"Finalizers":7`), true},
		"finalizers that are none":        {within(`"finalizers":7`), true},
		"labels that are a list":          {within(`"labels":[]`), true},
		"a label that is a number":        {within(`"labels":{"a":7}`), true},
		"a long label":                    {within(`"labels":{"a":"` + strings.Repeat("x", 64) + `"}`), true},
		"owners that are none":            {within(`"ownerReferences":{"uid":"u"}`), true},
		"a uid that is a number":          {within(`"uid":7`), true},
		"a long uid":                      {within(`"uid":"` + strings.Repeat("x", 65) + `"`), true},
		"a long resourceVersion":          {within(`"resourceVersion":"` + strings.Repeat("1", 256) + `"`), true},
		"a time that is none":             {within(`"creationTimestamp":"yesterday"`), true},
		"a generation with a fraction":    {within(`"generation":1.5`), true},
		"another kind":                    {`{"kind":"Secret",` + identity + `}`, true},
		"another version":                 {`{"apiVersion":"v2",` + identity + `}`, true},
		"deep":                            {`{` + identity + `,"x":` + strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth) + `}`, true},
		"a number beyond all numbers":     {`{` + identity + `,"x":1e400}`, true},
		"a number of a thousand digits":   {`{` + identity + `,"x":` + strings.Repeat("1", 1000) + `}`, true},
		"a field twice":                   {`{` + identity + `,"data":{"a":"1","a":"2"}}`, false},
		"a text that is no UTF-8":         {"{" + identity + ",\"data\":{\"a\":\"\xff\"}}", false},
		"half of a surrogate pair":        {`{` + identity + `,"data":{"a":"\ud800"}}`, false},
		"many labels":                     {within(`"labels":{` + labels(maxReferences+1) + `}`), true},
		"many owners":                     {within(`"ownerReferences":[{}` + strings.Repeat(",{}", maxReferences) + `]`), true},
		"many values":                     {`{` + identity + `,"x":0.5,"y":[{}` + strings.Repeat(",{}", maxValues) + `]}`, true},
		"many names":                      {`{` + identity + `,"x":{` + labels(maxValues) + `}}`, true},
		"annotations that are in a field": {within(`"annotations":{"a":{"b":"c"}}`), true},
	} {
		o, err := NewObject("east", kindOfConfigMaps, []byte(test.text))
		assert.True(t, isRefused(err), "%s: %v", name, err)
		assert.Equal(t, test.known, o.Name == "a" && o.Namespace == "default", name)
		assert.Empty(t, o.JSON, name)
	}
	_, err := NewObject("east", kindOfNodes, []byte(`{"metadata":{"name":"a","namespace":"default"}}`))
	assert.True(t, isRefused(err), "a namespace where there is none")
	_, err = NewObject("east", kindOfRoles, []byte(`{`+identity+`,"Rules":[{"verbs":["*"]}]}`))
	assert.True(t, isRefused(err), "rules in another case")
}

// labels returns the text of some labels.
func labels(count int) string {
	all := make([]string, count)
	for n := range all {
		all[n] = fmt.Sprintf(`"l%d":""`, n)
	}
	return strings.Join(all, ",")
}

func TestWhatIsTakenAtTheDoor(t *testing.T) {
	for _, text := range []string{
		`{"metadata":{"name":"a:b c","namespace":"default"},"data":{"Metadata":"x","metadata":"y"}}`,
		`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"default","labels":null,"creationTimestamp":null}}`,
		`{"metadata":{"name":"a","namespace":"default","labels":{` + labels(maxReferences) + `},"ownerReferences":[{}` + strings.Repeat(",{}", maxReferences-1) + `]}}`,
		`{"metadata":{"name":"a","namespace":"default","ownerReferences":null},"data":{"x":"` + strings.Repeat("{},", maxValues) + `"},"y":[[` + strings.Repeat("[ ], ", maxValues/2) + `{}]]}`,
		`{"metadata":{"name":"a","namespace":"default","ownerReferences":[{"uid":"` + strings.Repeat("x", 1000) + `"}]}}`,
		`{"metadata":{"name":"a","namespace":"default"},"x":` + strings.Repeat("[", maxDepth-1) + strings.Repeat("]", maxDepth-1) + `,"y":1e-7,"z":"\u0000"}`,
	} {
		_, err := NewObject("east", kindOfConfigMaps, []byte(text))
		assert.NoError(t, err, text)
	}
}

// FuzzObject has all parsers read what the limiter has taken.
func FuzzObject(f *testing.F) {
	for _, text := range []string{
		object("a", 7),
		`{"metadata":{"name":"a","namespace":"default","labels":{"a":null},"finalizers":[null],"deletionTimestamp":"2026-01-01T00:00:00.5+02:00"}}`,
		`{"metadata":{"name":"a","namespace":"default"},"Metadata":{"name":"b"},"\u212aind":7}`,
		`{"metadata":{"name":"a","namespace":"default","generation":1,"x":[1e300,-0.0]},"data":{"\u0000":"\ud83d\ude00\\\""}}`,
		`{"metadata":{"name":"a","namespace":"default","ownerReferences":[{"uid":"u","UID":"v","Name":7}]}}`,
		`{ "kind" : "ConfigMap" , "metadata" : { "name" : "a" , "namespace" : "default" , "managedFields" : [ ] } }`,
	} {
		f.Add([]byte(text))
	}
	db, err := sql.Open("sqlite", ":memory:")
	require.NoError(f, err)
	f.Cleanup(func() { db.Close() })
	f.Fuzz(func(t *testing.T, text []byte) {
		o, err := NewObject("east", kindOfConfigMaps, text)
		if err != nil {
			assert.Nil(t, o.JSON)
			return
		}
		var v1, strict metav1.PartialObjectMetadata
		var v2 struct {
			Metadata metadata `json:"metadata"`
		}
		require.NoError(t, json.Unmarshal(o.JSON, &v1))
		require.NoError(t, kjson.UnmarshalCaseSensitivePreserveInts(o.JSON, &strict))
		require.NoError(t, jsonv2.Unmarshal(o.JSON, &v2))
		assert.Equal(t, strict, v1)
		assert.Equal(t, []string{"v1", "ConfigMap", o.Name, o.Namespace, o.UID, o.ResourceVersion},
			[]string{v1.APIVersion, v1.Kind, v1.Name, v1.Namespace, string(v1.UID), v1.ResourceVersion})
		assert.Equal(t, []string{o.Name, o.Namespace, o.UID}, []string{v2.Metadata.Name, v2.Metadata.Namespace, v2.Metadata.UID})
		assert.Equal(t, v1.Annotations, v2.Metadata.Annotations)
		assert.Equal(t, len(o.Labels), len(v1.Labels))
		for label, value := range o.Labels {
			assert.Equal(t, value, v1.Labels[label])
		}
		if !v1.CreationTimestamp.IsZero() {
			assert.Equal(t, o.CreatedAt, v1.CreationTimestamp.Unix())
		}
		again, err := NewObject("east", kindOfConfigMaps, o.JSON)
		require.NoError(t, err)
		assert.Equal(t, string(o.JSON), string(again.JSON), "it is of one form")
		var name string
		require.NoError(t, db.QueryRow("SELECT json_extract(?, '$.metadata.name')", string(o.JSON)).Scan(&name))
		if !strings.ContainsRune(o.Name, 0) {
			assert.Equal(t, o.Name, name)
		}
	})
}

// TestAnObjectThatIsRefusedIsNotServedAsItWas has an object become one that is refused, in a watch and in a list.
func TestAnObjectThatIsRefusedIsNotServedAsItWas(t *testing.T) {
	f, s := newFakeMember(t), newStore(t)
	f.put("a", "b")
	m, _ := run(t, f, s)
	eventually(t, s, "a", "b")
	f.do(func() {
		f.wrong = map[string]string{"b": `{"metadata":{"name":"b","namespace":"default","finalizers":7}}`}
	})
	f.put("b", "c")
	eventually(t, s, "a", "c")
	refused := func() map[string]string {
		_, all := m.Status()
		require.Len(t, all, 1)
		return all[0].Refused
	}
	assert.Contains(t, refused()["default/b"], "finalizers")
	f.do(func() { f.wrong["c"] = `{"metadata":{}}` })
	f.put("c")
	eventually(t, s, "a") // the watch cannot go on, and the list does not have it
	f.do(func() { f.wrong = nil })
	f.put("b", "c")
	eventually(t, s, "a", "b", "c")
}

func TestAnRBACObjectThatIsRefusedStaysUnreadable(t *testing.T) {
	change := refusedObject("east", kindOfRoles, store.Object{Namespace: "default", Name: "reader"}, errors.New("deep"))
	assert.False(t, change.Deleted)
	require.Error(t, json.Unmarshal(change.JSON, &rbacv1.Role{}))
	require.Error(t, json.Unmarshal(change.JSON, &rbacv1.RoleBinding{}))
	var o metav1.PartialObjectMetadata
	require.NoError(t, json.Unmarshal(change.JSON, &o))
	assert.Equal(t, "reader", o.Name)
	assert.Equal(t, "deep", o.Annotations[access.RefusedAnnotation])
}

// TestTheDatabaseRefusesAnObject has errors that are about the data by their code, and errors without such a code.
func TestTheDatabaseRefusesAnObject(t *testing.T) {
	for name, statement := range map[string]string{"by a constraint": "RAISE(ABORT, 'no')", "without saying why": "json_extract('{', '$')"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			location := storetest.SQLite(t)
			s, err := store.Open(location)
			require.NoError(t, err)
			t.Cleanup(func() { s.Close() })
			require.NoError(t, s.Migrate(t.Context()))
			f := newFakeMember(t)
			f.put("a", "b", "c")
			m, _ := run(t, f, s)
			eventually(t, s, "a", "b", "c")
			db, err := sql.Open("sqlite", "file:"+strings.TrimPrefix(location, "sqlite:")+"?_pragma=busy_timeout(60000)")
			require.NoError(t, err)
			defer db.Close()
			_, err = db.Exec(fmt.Sprintf("CREATE TRIGGER no BEFORE INSERT ON objects WHEN NEW.name = 'b' BEGIN SELECT %s; END", statement))
			require.NoError(t, err)
			f.put("b", "d")
			eventually(t, s, "a", "c", "d")
			require.Eventually(t, func() bool {
				_, all := m.Status()
				return len(all) == 1 && all[0].Refused["default/b"] != "" && all[0].Phase == Syncing
			}, time.Minute, 20*time.Millisecond)
		})
	}
}
