// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/objectjson"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

func TestBuiltInKindsAreThoseOfKubernetes(t *testing.T) {
	command := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes")
	command.Env = append(os.Environ(), "GOFLAGS=")
	dir, err := command.Output()
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "api/discovery/*__*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	want := map[schema.GroupResource]builtInKind{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var list metav1.APIResourceList
		require.NoError(t, json.Unmarshal(text, &list))
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		require.NoError(t, err)
		for _, r := range list.APIResources {
			if !strings.Contains(r.Name, "/") && slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "watch") {
				want[schema.GroupResource{Group: gv.Group, Resource: r.Name}] = builtInKind{r.Kind, r.Namespaced}
			}
		}
	}
	assert.Equal(t, want, ofVersion(builtIn, want))
}

func TestAMemberDoesNotSayWhatPodsAre(t *testing.T) {
	kind := kindOf(schema.GroupVersion{Version: "v1"}, metav1.APIResource{Name: "pods", Kind: "Secret", Namespaced: false, SingularName: "a b", ShortNames: []string{"po", "\"", ""}})
	assert.Equal(t, streams.Kind{
		GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Name: "Pod", Namespaced: true, Details: streams.Details{ShortNames: []string{"po"}},
	}, kind)
}

func TestOddNamesAreRefused(t *testing.T) {
	good := streams.Kind{GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}, Name: "Thing"}
	require.NoError(t, checkNames(good))
	for name, change := range map[string]func(*streams.Kind){
		"a kind with a quote":          func(k *streams.Kind) { k.Name = `Thing"` },
		"a kind with a control letter": func(k *streams.Kind) { k.Name = "Thing\x01" },
		"no kind":                      func(k *streams.Kind) { k.Name = "" },
		"a resource with a slash":      func(k *streams.Kind) { k.Resource = "a/b" },
		"a resource with a dot":        func(k *streams.Kind) { k.Resource = "a.b" },
		"a long resource":              func(k *streams.Kind) { k.Resource = strings.Repeat("a", 64) },
		"a version with a percent":     func(k *streams.Kind) { k.Version = "v%31" },
		"a group in capitals":          func(k *streams.Kind) { k.Group = "Example.com" },
	} {
		kind := good
		change(&kind)
		assert.Error(t, checkNames(kind), name)
	}
}

// kindEventually waits until the store describes config maps of a member as they should be.
func kindEventually(t *testing.T, s *store.Store, is func(streams.Kind) bool) {
	t.Helper()
	var kind streams.Kind
	require.Eventually(t, func() bool {
		var err error
		kind, err = s.Kind(t.Context(), "east", things, false)
		return err == nil && is(kind)
	}, time.Minute, 20*time.Millisecond, "%+v", &kind)
}

// things are served as config maps are by the fake member, but are not built in.
var things = schema.GroupVersionResource{Version: "v1", Resource: "things"}

func TestADefinitionThatIsCreatedAnewIsReadAgain(t *testing.T) {
	f, s := newFakeMember(t), newStore(t)
	f.resources = []string{"things"}
	f.put("a")
	run(t, f, s)
	eventually(t, s, "a")
	kindEventually(t, s, func(k streams.Kind) bool { return k.Namespaced && slices.Equal(k.ShortNames, []string{"cm"}) })

	f.do(func() {
		f.described = func(r *metav1.APIResource) { r.ShortNames, r.Categories = []string{"th"}, []string{"all"} }
	})
	kindEventually(t, s, func(k streams.Kind) bool {
		return slices.Equal(k.ShortNames, []string{"th"}) && slices.Equal(k.Categories, []string{"all"})
	})
	assert.Equal(t, 1, f.count("initial"), "other names need no new list")

	f.do(func() { f.described = func(r *metav1.APIResource) { r.Kind = "Other" } })
	kindEventually(t, s, func(k streams.Kind) bool { return k.Name == "Other" })
	require.Eventually(t, func() bool {
		found, err := s.Get(t.Context(), "east", things, "default", "a")
		return err == nil && objectjson.KindOf(found.JSON) == "Other"
	}, time.Minute, 20*time.Millisecond, "objects are written again with their new kind")
	assert.Equal(t, 2, f.count("initial"))

	f.do(func() {
		f.described = func(r *metav1.APIResource) { r.Namespaced = false }
		clear(f.objects)
	})
	kindEventually(t, s, func(k streams.Kind) bool { return !k.Namespaced })
	eventually(t, s) // the objects of the former definition are gone
}
