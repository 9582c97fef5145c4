// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
)

// Answer has what changed between two revisions of search.
type Answer struct {
	From    string   `json:"from"`
	To      string   `json:"to"`
	Changes []Change `json:"changes"`
}

// Kind is what became of an object.
type Kind string

// The kinds of changes.
const (
	Added   Kind = "added"
	Changed Kind = "changed"
	Deleted Kind = "deleted"
)

// Change is that of an object.
type Change struct {
	key
	Change Kind `json:"change"`
	// Time is that of the last change between the moments.
	Time time.Time `json:"time"`
	// Fields are the paths of what has changed.
	Fields []string `json:"fields,omitempty"`
	// Before and After are without what changes each time: resourceVersion, generation and managedFields. They are nil where the object was
	// not.
	Before map[string]any `json:"before,omitempty"`
	After  map[string]any `json:"after,omitempty"`
}

// key names an object.
type key struct {
	Cluster    string `json:"cluster"`
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
}

// object is one that differs.
type object struct {
	key
	changed time.Time
	content map[string]any
}

func newObject(content map[string]any) object {
	is := unstructured.Unstructured{Object: content}
	annotations := is.GetAnnotations()
	o := object{content: content, key: key{
		Cluster: annotations[v1beta1.ClusterAnnotation], APIVersion: is.GetAPIVersion(), Kind: is.GetKind(), Namespace: is.GetNamespace(),
		Name: is.GetName(),
	}}
	o.changed, _ = time.Parse(time.RFC3339, annotations[v1beta1.ChangedAtAnnotation]) // a server without it has no time
	for _, name := range []string{v1beta1.ClusterAnnotation, v1beta1.ChangedAtAnnotation, v1beta1.ResourceVersionAnnotation} {
		delete(annotations, name)
	}
	if is.SetAnnotations(annotations); len(annotations) == 0 {
		unstructured.RemoveNestedField(content, "metadata", "annotations")
	}
	for _, name := range []string{"resourceVersion", "generation", "managedFields"} {
		unstructured.RemoveNestedField(content, "metadata", name)
	}
	return o
}

// changes compares objects at two moments. The oldest change comes first.
func changes(before, after map[key]object) []Change {
	all := []Change{}
	for k, was := range before {
		c := Change{key: k, Change: Deleted, Time: was.changed, Before: was.content}
		if is, still := after[k]; still {
			c.Change, c.After, c.Fields = Changed, is.content, differences("", was.content, is.content)
			if c.Time = is.changed; len(c.Fields) == 0 { // only what is not shown
				continue
			}
		}
		all = append(all, c)
	}
	for k, is := range after {
		if _, was := before[k]; !was {
			all = append(all, Change{key: k, Change: Added, Time: is.changed, After: is.content})
		}
	}
	slices.SortFunc(all, func(a, b Change) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Name, b.Name))
	})
	return all
}

// differences returns the paths of the fields that differ, as field selectors have them.
func differences(path string, a, b any) (paths []string) {
	if reflect.DeepEqual(a, b) {
		return nil
	}
	switch a := a.(type) {
	case map[string]any:
		if b, ok := b.(map[string]any); ok {
			names := maps.Clone(a)
			maps.Copy(names, b)
			for _, name := range slices.Sorted(maps.Keys(names)) {
				paths = append(paths, differences(below(path, name), a[name], b[name])...)
			}
			return paths
		}
	case []any:
		if b, ok := b.([]any); ok && len(a) == len(b) {
			for i := range a {
				paths = append(paths, differences(path+"["+strconv.Itoa(i)+"]", a[i], b[i])...)
			}
			return paths
		}
	}
	return []string{path}
}

func below(path, name string) string {
	if strings.ContainsAny(name, "./[]") {
		return path + "['" + name + "']"
	}
	return strings.TrimPrefix(path+"."+name, ".")
}
