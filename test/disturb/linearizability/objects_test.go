// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package linearizability

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/tripod-k8s/tripod/test/disturb/linearizability/history"

	"github.com/tripod-k8s/tripod/test/framework"
)

// resource is a kind of object that clients use. All have a value in their data.
type resource struct{ kind, plural, version, prefix string }

// custom is a resource of which there is a CustomResourceDefinition.
func custom(kind string) resource {
	return resource{kind, strings.ToLower(kind) + "s", "linearizability.example.com/v1", "/apis/linearizability.example.com/v1"}
}

func (r resource) definition() string {
	return framework.CRD{Kind: r.kind, Group: "linearizability.example.com", Schema: framework.Data}.String()
}

// collection is the objects of a resource in a namespace.
type collection struct {
	resource
	namespace string
}

func (c collection) path() string { return c.prefix + "/namespaces/" + c.namespace + "/" + c.plural }

// lastName is the name of the object that is written when all have stopped, for watchers to see that they are done.
const lastName = "last"

func nameOf(object int) string { return "object-" + strconv.Itoa(object) }

// body returns an object with a value. It has a precondition if version is not 0.
func (c collection) body(name string, value int, version uint64) []byte {
	metadata := map[string]string{"name": name}
	if version != 0 {
		metadata["resourceVersion"] = strconv.FormatUint(version, 10)
	}
	return encode(map[string]any{
		"apiVersion": c.version, "kind": c.kind, "metadata": metadata, "data": map[string]string{"value": strconv.Itoa(value)},
	})
}

// deletion returns the body of a request that deletes a version of an object.
func deletion(version uint64) []byte {
	return encode(map[string]any{
		"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": map[string]string{"resourceVersion": strconv.FormatUint(version, 10)},
	})
}

func encode(body any) []byte {
	data, err := json.Marshal(body)
	if err != nil {
		panic(err) // there are only strings
	}
	return data
}

// object is what an answer, or an event, has of an object. It may also be a list, or a Status.
type object struct {
	Metadata struct {
		Name            string `json:"name"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Data struct {
		Value string `json:"value"`
	} `json:"data"`
	Items []object `json:"items"`

	Code    int    `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Details struct {
		Name string `json:"name"`
	} `json:"details"`
}

// index returns the number of an object.
func (o object) index() (int, error) {
	number, found := strings.CutPrefix(o.Metadata.Name, "object-")
	i, err := strconv.Atoi(number)
	if !found || err != nil || i < 0 || i >= history.Size {
		return 0, fmt.Errorf("there is an object %q, which nobody made", o.Metadata.Name)
	}
	return i, nil
}

func (o object) version() (uint64, error) {
	version, err := strconv.ParseUint(o.Metadata.ResourceVersion, 10, 64)
	if err != nil || version == 0 {
		return 0, fmt.Errorf("%q has the resourceVersion %q", o.Metadata.Name, o.Metadata.ResourceVersion)
	}
	return version, nil
}

// state returns how an object is.
func (o object) state() (history.Object, error) {
	version, err := o.version()
	if err != nil {
		return history.Object{}, err
	}
	value, err := strconv.Atoi(o.Data.Value)
	if err != nil || value == 0 {
		return history.Object{}, fmt.Errorf("%q has the value %q", o.Metadata.Name, o.Data.Value)
	}
	return history.Object{Value: value, Version: version}, nil
}

// states returns how the objects of a list are.
func (o object) states() (states [history.Size]history.Object, err error) {
	for _, item := range o.Items {
		i, err := item.index()
		if err != nil {
			return states, err
		}
		if states[i] != (history.Object{}) {
			return states, fmt.Errorf("%q is twice in a list", item.Metadata.Name)
		}
		if states[i], err = item.state(); err != nil {
			return states, err
		}
	}
	return states, nil
}
