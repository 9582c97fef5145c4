// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/tripod-k8s/tripod/test/framework"
)

// Resource is a kind of object that clients use. Each object has one value, in its data.
type Resource struct{ Kind, Plural, Version, Prefix string }

// ConfigMaps are built-in objects that clients use.
var ConfigMaps = Resource{"ConfigMap", "configmaps", "v1", "/api/v1"}

// Customs are custom resources. A hash assigns each to a replica of extensions. With this many, each replica should get some.
var Customs = []Resource{
	Custom("Ant"), Custom("Bee"), Custom("Cicada"), Custom("Dragonfly"), Custom("Earwig"), Custom("Firefly"),
	Custom("Gnat"), Custom("Hornet"), Custom("Katydid"), Custom("Locust"), Custom("Moth"), Custom("Wasp"),
}

// Custom returns a custom resource of the group example.com.
func Custom(kind string) Resource {
	return Resource{kind, strings.ToLower(kind) + "s", "example.com/v1", "/apis/example.com/v1"}
}

// Definitions returns the CustomResourceDefinitions of resources.
func Definitions(resources []Resource) string {
	var manifests []string
	for _, r := range resources {
		manifests = append(manifests, framework.CRD{Kind: r.Kind, Schema: framework.Data}.String())
	}
	return strings.Join(manifests, "---")
}

// Collection returns the path of the objects of a namespace.
func (r Resource) Collection(namespace string) string {
	return r.Prefix + "/namespaces/" + namespace + "/" + r.Plural
}

// Path returns the path of an object.
func (r Resource) Path(namespace, name string) string { return r.Collection(namespace) + "/" + name }

// Object returns the body of a request that writes a value. The resourceVersion is a precondition, unless it is empty.
func (r Resource) Object(name, value, resourceVersion string) []byte {
	metadata := map[string]string{"name": name}
	if resourceVersion != "" {
		metadata["resourceVersion"] = resourceVersion
	}
	return encode(map[string]any{"apiVersion": r.Version, "kind": r.Kind, "metadata": metadata, "data": map[string]string{"value": value}})
}

func encode(body any) []byte {
	data, err := json.Marshal(body)
	if err != nil {
		panic(err) // impossible: all values are strings
	}
	return data
}

// Object is the part of an object, a list or a Status that clients look at.
type Object struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name            string `json:"name"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Data struct {
		Value string `json:"value"`
	} `json:"data"`
	// Items are the objects of a list.
	Items []Object `json:"items"`
	// Code, Reason and Message are those of a Status.
	Code    int    `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Version returns the resourceVersion as a number.
func (o Object) Version() (uint64, error) {
	version, err := strconv.ParseUint(o.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: resourceVersion: %w", o.Metadata.Name, err)
	}
	return version, nil
}

// Decode reads the body of an answer.
func Decode(body []byte) (Object, error) {
	var o Object
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(&o); err != nil {
		return Object{}, fmt.Errorf("%q is no object: %w", body, err)
	}
	return o, nil
}
