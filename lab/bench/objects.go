// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tripod-k8s/tripod/lab/bench/load"
)

// resource is the resource of requests.
type resource struct {
	// Name is the name for people.
	Name string
	// prefix and plural make its paths.
	prefix, plural   string
	apiVersion, kind string
	// content is the field with the content of an object. Without one, annotations have it.
	content string
}

var (
	configMaps = resource{
		Name: "ConfigMaps", prefix: "/api/v1", plural: "configmaps", apiVersion: "v1", kind: "ConfigMap", content: "data",
	}
	widgets = resource{
		Name: "custom resource", prefix: "/apis/bench.tripod.example/v1", plural: "widgets",
		apiVersion: "bench.tripod.example/v1", kind: "Widget", content: "spec",
	}
	resources = []resource{configMaps, widgets}
	flunders  = resource{
		Name: "flunders", prefix: "/apis/wardle.example.com/v1alpha1", plural: "flunders", apiVersion: "wardle.example.com/v1alpha1", kind: "Flunder",
	}
)

// payload makes objects 1 KB large, as most objects in clusters are.
var payload = strings.Repeat("0123456789abcdef", 50)

const (
	sentBefore    = `"sent":"`
	versionBefore = `"resourceVersion":"`
)

func (r resource) collection(namespace string) string {
	return r.prefix + "/namespaces/" + namespace + "/" + r.plural
}

// body returns an object with the time when it was sent. Without a resourceVersion, the object has none.
func (r resource) body(name, resourceVersion string) []byte {
	version := ""
	if resourceVersion != "" {
		version = "," + versionBefore + resourceVersion + `"`
	}
	if r.content == "" {
		return fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"name":%q%s,"annotations":{"text":%q,%s%d"}}}`,
			r.apiVersion, r.kind, name, version, payload, sentBefore, time.Now().UnixNano())
	}
	return fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"name":%q%s},%q:{"text":%q,%s%d"}}`,
		r.apiVersion, r.kind, name, version, r.content, payload, sentBefore, time.Now().UnixNano())
}

// create returns a request that makes an object.
func (r resource) create(namespace, name string) load.Request {
	return load.Request{Method: http.MethodPost, Path: r.collection(namespace), Body: r.body(name, "")}
}

func (r resource) get(namespace, name string) load.Request {
	return load.Request{Method: http.MethodGet, Path: r.collection(namespace) + "/" + name}
}

func (r resource) delete(namespace, name string) load.Request {
	return load.Request{Method: http.MethodDelete, Path: r.collection(namespace) + "/" + name}
}

// apply returns a server-side apply by a manager that owns all fields.
func (r resource) apply(namespace, name string) load.Request {
	return load.Request{
		Method: http.MethodPatch, Path: r.collection(namespace) + "/" + name + "?fieldManager=bench&force=true",
		ContentType: "application/apply-patch+yaml", Body: r.body(name, ""),
	}
}

// objects are objects that only one client changes at a time, so that there are no conflicts.
type objects struct {
	resource
	namespace string
	free      chan object
}

// object is the last known state of an object.
type object struct{ name, resourceVersion string }

func newObjects(r resource, namespace, prefix string, n int) *objects {
	o := &objects{resource: r, namespace: namespace, free: make(chan object, n)}
	for i := range n {
		o.free <- object{name: fmt.Sprintf("%s-%d", prefix, i)}
	}
	return o
}

// reset applies all objects, so that they exist, and forgets their state in another cluster.
func (o *objects) reset(ctx context.Context, client *load.Client) error {
	for range cap(o.free) {
		one := <-o.free
		o.free <- object{name: one.name}
		if err := client.Do(ctx, o.resource.apply(o.namespace, one.name)); err != nil {
			return err
		}
	}
	return nil
}

// apply returns server-side applies of one object after the other.
func (o *objects) apply(client *load.Client) load.Operation {
	return func(ctx context.Context) error {
		one := <-o.free
		defer func() { o.free <- one }()
		answer, err := client.Read(ctx, o.resource.apply(o.namespace, one.name))
		one.resourceVersion = quotedAfter(answer, versionBefore) // for an update, which would conflict with this otherwise
		return err
	}
}

// update returns PUTs of one object after the other, with its resourceVersion, as controllers send them.
func (o *objects) update(client *load.Client) load.Operation {
	return func(ctx context.Context) error {
		one := <-o.free
		defer func() { o.free <- one }()
		if one.resourceVersion == "" {
			answer, err := client.Read(ctx, o.get(o.namespace, one.name))
			if err != nil {
				return err
			}
			one.resourceVersion = quotedAfter(answer, versionBefore)
		}
		answer, err := client.Read(ctx, load.Request{
			Method: http.MethodPut, Path: o.collection(o.namespace) + "/" + one.name, Body: o.body(one.name, one.resourceVersion),
		})
		one.resourceVersion = quotedAfter(answer, versionBefore) // none after an error: it is read then
		return err
	}
}

// quotedAfter returns what follows the first occurrence of a key, up to the quotation mark.
func quotedAfter(json []byte, key string) string {
	_, after, _ := bytes.Cut(json, []byte(key))
	value, _, _ := bytes.Cut(after, []byte(`"`))
	return string(value)
}
