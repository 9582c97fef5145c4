// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"encoding/json"
	"errors"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
)

// Bounds of the text of an object.
const (
	maxShown   = 512 << 10
	maxNesting = 40
	// maxDecoded is more than an object of Kubernetes' own etcd may have, of which most are 1 MiB at most when they are created. A member
	// may send 10 MiB of small values, which would take hundreds of MiB as maps and as YAML.
	maxDecoded = 2 << 20
)

// loaded is an object. If it is large, only its metadata is decoded.
type loaded struct {
	*unstructured.Unstructured
	// large is the JSON of an object that is too large to be decoded.
	large []byte
}

var errNoObject = errors.New("search answers with something else than an object")

func decode(text []byte) (*loaded, error) {
	object := &unstructured.Unstructured{}
	if len(text) <= maxDecoded {
		if err := json.Unmarshal(text, &object.Object); err != nil || object.Object == nil {
			return nil, errNoObject
		}
		return &loaded{Unstructured: object}, nil
	}
	var about metav1.PartialObjectMetadata
	if err := json.Unmarshal(text, &about); err != nil {
		return nil, errNoObject
	}
	object.Object = map[string]any{}
	object.SetGroupVersionKind(about.GroupVersionKind())
	object.SetCreationTimestamp(about.CreationTimestamp)
	object.SetResourceVersion(about.ResourceVersion)
	object.SetAnnotations(about.Annotations)
	return &loaded{object, text}, nil
}

// text returns the YAML of an object, or JSON if it is large, or nested so deep that blanks would be most of the YAML.
func (l *loaded) text() (text string, cut bool) {
	encoded, err := l.large, error(nil)
	if encoded == nil {
		encode := yaml.Marshal
		if nesting(l.Object) > maxNesting {
			encode = json.Marshal
		}
		encoded, err = encode(l.Object)
	}
	if err != nil {
		return "The object cannot be shown: " + err.Error(), false
	}
	if len(encoded) > maxShown {
		return strings.ToValidUTF8(string(encoded[:maxShown]), ""), true
	}
	return string(encoded), false
}

func nesting(value any) int {
	deepest := 0
	switch value := value.(type) {
	case map[string]any:
		for _, v := range value {
			deepest = max(deepest, nesting(v))
		}
	case []any:
		for _, v := range value {
			deepest = max(deepest, nesting(v))
		}
	default:
		return 0
	}
	return deepest + 1
}

// comparable returns the YAML of an object without what changes each time, and what search adds. Nothing is the text of no object.
func (l *loaded) comparable() (text string, tooLarge bool) {
	if l == nil {
		return "", false
	}
	if l.large != nil {
		return "", true
	}
	object := l.DeepCopy()
	annotations := object.GetAnnotations()
	for _, name := range []string{v1beta1.ClusterAnnotation, v1beta1.ChangedAtAnnotation, v1beta1.ResourceVersionAnnotation} {
		delete(annotations, name)
	}
	if object.SetAnnotations(annotations); len(annotations) == 0 {
		unstructured.RemoveNestedField(object.Object, "metadata", "annotations")
	}
	for _, name := range []string{"resourceVersion", "generation", "managedFields"} {
		unstructured.RemoveNestedField(object.Object, "metadata", name)
	}
	text, _ = (&loaded{Unstructured: object}).text()
	return text, len(text) > maxDiff
}
