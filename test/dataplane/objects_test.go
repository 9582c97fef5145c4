// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// resource is a kind of object that clients in these tests use. All have a value in their data.
type resource struct{ kind, plural, version, prefix string }

var (
	configMaps = resource{"ConfigMap", "configmaps", "v1", "/api/v1"}
	// customs are so many that each replica of extensions has some, which is left to chance.
	customs = []resource{
		custom("Ant"), custom("Bee"), custom("Cicada"), custom("Dragonfly"), custom("Earwig"), custom("Firefly"),
		custom("Gnat"), custom("Hornet"), custom("Katydid"), custom("Locust"), custom("Moth"), custom("Wasp"),
	}
	// few are those of the fleet: kube-controller-manager takes ten seconds for each to see that it is not served.
	few = customs[:2]
)

func custom(kind string) resource {
	return resource{kind, strings.ToLower(kind) + "s", "example.com/v1", "/apis/example.com/v1"}
}

// definitions are the CustomResourceDefinitions of resources.
func definitions(resources []resource) string {
	var manifests []string
	for _, r := range resources {
		manifests = append(manifests, fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[2]s.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: %[2]s, singular: %[3]s, kind: %[1]s, listKind: %[1]sList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          data: {type: object, additionalProperties: {type: string}}
`, r.kind, r.plural, strings.ToLower(r.kind)))
	}
	return strings.Join(manifests, "---")
}

func (r resource) collection(namespace string) string {
	return r.prefix + "/namespaces/" + namespace + "/" + r.plural
}

func (r resource) path(namespace, name string) string { return r.collection(namespace) + "/" + name }

// object returns the body of a request that writes a value. It may have a precondition.
func (r resource) object(name, value, resourceVersion string) []byte {
	metadata := map[string]string{"name": name}
	if resourceVersion != "" {
		metadata["resourceVersion"] = resourceVersion
	}
	return encode(map[string]any{"apiVersion": r.version, "kind": r.kind, "metadata": metadata, "data": map[string]string{"value": value}})
}

func encode(body any) []byte {
	data, err := json.Marshal(body)
	if err != nil {
		panic(err) // there are only strings
	}
	return data
}

// object is what an answer tells of an object.
type object struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name            string `json:"name"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Data struct {
		Value string `json:"value"`
	} `json:"data"`
	// Items are those of a list.
	Items []object `json:"items"`
	// What follows is in a Status.
	Code    int    `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// version returns the resourceVersion as the number that it is.
func (o object) version() (uint64, error) {
	version, err := strconv.ParseUint(o.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: resourceVersion: %w", o.Metadata.Name, err)
	}
	return version, nil
}

// decode reads the body of an answer.
func decode(body []byte) (object, error) {
	var o object
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(&o); err != nil {
		return object{}, fmt.Errorf("%q is no object: %w", body, err)
	}
	return o, nil
}
