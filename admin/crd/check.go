// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package crd moves the custom resources of an API group from extensions to an API service and back ([Move]), and asks the service before
// whether it could take them over ([Check]).
package crd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/base/migration"
	"github.com/tripod-k8s/tripod/services/list"
)

const (
	// pageSize is how many objects are read at once, and batchBytes how many bytes of them are sent. API servers take 3 MiB.
	pageSize   = 250
	batchBytes = 2 << 20
)

// Options say what to check.
type Options struct {
	// Config is that of the cluster.
	Config *rest.Config
	// Group is the API group of CustomResourceDefinitions, and Service the name of the API service.
	Group, Service string
	// Progress gets a line about each step.
	Progress func(line string)
}

// Report says what the service could take over.
type Report struct {
	Group     string     `json:"group"`
	Service   string     `json:"service"`
	Resources []Resource `json:"resources"`
}

// Resource is a resource whose objects the service would return as they are.
type Resource struct {
	// Name is as in books.library.example.com.
	Name    string `json:"name"`
	Objects int64  `json:"objects"`
	// Bytes is the size of the objects as JSON.
	Bytes int64 `json:"bytes"`
	// Checksum is the SHA-256 of all objects, in hexadecimal digits, if two servers were compared.
	Checksum string `json:"checksum,omitempty"`
}

// checker is one run.
type checker struct {
	Options
	objects dynamic.Interface
	service rest.Interface
}

// Check returns the first reason why the service could not take over the objects of the group.
func Check(ctx context.Context, o Options) (*Report, error) {
	c, err := newChecker(o)
	if err != nil {
		return nil, err
	}
	definitions, err := c.definitions(ctx)
	if err != nil {
		return nil, err
	}
	served, err := c.served(ctx)
	if err != nil {
		return nil, err
	}
	for _, definition := range definitions {
		if err := compare(definition, served, o.Service); err != nil {
			return nil, err
		}
	}
	report := &Report{Group: o.Group, Service: o.Service, Resources: []Resource{}}
	for _, definition := range definitions {
		one, err := c.try(ctx, definition)
		if err != nil {
			return nil, err
		}
		report.Resources = append(report.Resources, one)
	}
	return report, nil
}

func newChecker(o Options) (*checker, error) {
	objects, err := dynamic.NewForConfig(o.Config)
	if err != nil {
		return nil, err
	}
	client, err := discovery.NewDiscoveryClientForConfig(o.Config)
	if err != nil {
		return nil, err
	}
	return &checker{o, objects, client.RESTClient()}, nil
}

// definitions returns those of the group, by name.
func (c *checker) definitions(ctx context.Context) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var found []*apiextensionsv1.CustomResourceDefinition
	of := c.objects.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"))
	for next := ""; ; {
		list, err := of.List(ctx, metav1.ListOptions{Limit: pageSize, Continue: next})
		if err != nil {
			return nil, fmt.Errorf("cannot list CustomResourceDefinitions: %w", err)
		}
		for _, item := range list.Items {
			definition := &apiextensionsv1.CustomResourceDefinition{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, definition); err != nil {
				return nil, fmt.Errorf("cannot read %s: %w", item.GetName(), err)
			}
			if definition.Spec.Group == c.Group {
				found = append(found, definition)
			}
		}
		if next = list.GetContinue(); next == "" {
			break
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("there is no CustomResourceDefinition of the group %q", c.Group)
	}
	for _, definition := range found {
		if conversion := definition.Spec.Conversion; conversion != nil && conversion.Strategy == apiextensionsv1.WebhookConverter {
			return nil, fmt.Errorf("%s has a conversion webhook, which the service would not call: set spec.conversion.strategy to None first",
				definition.Name)
		}
	}
	return found, nil
}

// served returns what the service serves of the group.
func (c *checker) served(ctx context.Context) ([]migration.Resource, error) {
	if _, partition := addresses.PartitionOf(c.Service); partition || c.Service == list.Extensions {
		return nil, c.unknown()
	}
	var group migration.Group
	err := c.ask(ctx, c.service.Get().AbsPath(migration.PathOf(c.Group, "")), &group)
	switch {
	case apierrors.IsBadRequest(err):
		return nil, c.unknown()
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("you need the right for the nonResourceURLs %s and %[1]s/*, with the verbs get and post: %[2]w",
			migration.PathOf(c.Group, ""), err)
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("the service %s does not serve the group %q, or its module apiservice is too old", c.Service, c.Group)
	case err != nil:
		return nil, fmt.Errorf("the service %s does not answer, is it ready? %w", c.Service, err)
	}
	return group.Resources, nil
}

func (c *checker) unknown() error {
	return fmt.Errorf("there is no API service %q (tripod status lists services)", c.Service)
}

// ask sends a request to the service.
func (c *checker) ask(ctx context.Context, request *rest.Request, answer any) error {
	result := request.Param("service", c.Service).Do(ctx)
	if err := result.Error(); err != nil {
		return err
	}
	data, err := result.Raw()
	if err != nil {
		return err
	}
	return json.Unmarshal(data, answer)
}

// compare returns how what the service serves differs from a definition.
func compare(definition *apiextensionsv1.CustomResourceDefinition, served []migration.Resource, service string) error {
	spec := definition.Spec
	i := slices.IndexFunc(served, func(r migration.Resource) bool { return r.Name == spec.Names.Plural })
	if i < 0 {
		return fmt.Errorf("the service %s does not serve %s, or does not keep its objects in a storage that takes over others",
			service, definition.Name)
	}
	resource := served[i]
	if resource.Kind != spec.Names.Kind {
		return fmt.Errorf("the kind of %s is %s, and %s in the service %s", definition.Name, spec.Names.Kind, resource.Kind, service)
	}
	if namespaced := spec.Scope == apiextensionsv1.NamespaceScoped; namespaced != resource.Namespaced {
		return fmt.Errorf("the scope of %s is %s, and another one in the service %s", definition.Name, spec.Scope, service)
	}
	for _, version := range spec.Versions {
		if version.Served && !slices.Contains(resource.Versions, version.Name) {
			return fmt.Errorf("%s is served in %s, and the service %s has only %s",
				definition.Name, version.Name, service, strings.Join(resource.Versions, ", "))
		}
		if has := version.Subresources != nil && version.Subresources.Status != nil; version.Served && has != resource.Status {
			return fmt.Errorf("the subresource status of %s in %s is there: %t, and in the service %s: %t",
				definition.Name, version.Name, has, service, resource.Status)
		}
	}
	return nil
}

// versionOf returns the version in which to read the objects of a definition: that of their storage, or the first that is served.
func versionOf(definition *apiextensionsv1.CustomResourceDefinition) (string, error) {
	first := ""
	for _, version := range definition.Spec.Versions {
		if version.Served && version.Storage {
			return version.Name, nil
		}
		if version.Served && first == "" {
			first = version.Name
		}
	}
	if first == "" {
		return "", fmt.Errorf("%s is served in no version", definition.Name)
	}
	return first, nil
}

// try asks the service about each object.
func (c *checker) try(ctx context.Context, definition *apiextensionsv1.CustomResourceDefinition) (Resource, error) {
	result := Resource{Name: definition.Name}
	err := result.try(ctx, &listed{c}, definition, func(objects []json.RawMessage) error {
		err := c.send(ctx, definition.Spec.Names.Plural, objects)
		if err == nil {
			c.Progress(fmt.Sprintf("%s: the service would return %d objects as they are", definition.Name, result.Objects))
		}
		return err
	})
	return result, err
}

// try counts the objects of a source, and sends them in batches. The last batch may be empty.
func (r *Resource) try(
	ctx context.Context, from source, definition *apiextensionsv1.CustomResourceDefinition, send func([]json.RawMessage) error,
) error {
	var batch []json.RawMessage
	size := 0
	err := from.each(ctx, definition, func(data json.RawMessage) error {
		if size+len(data) > batchBytes || len(batch) == pageSize {
			if err := send(batch); err != nil {
				return err
			}
			batch, size = nil, 0
		}
		batch, size = append(batch, data), size+len(data)
		r.Objects, r.Bytes = r.Objects+1, r.Bytes+int64(len(data))
		return nil
	})
	if err != nil {
		return err
	}
	return send(batch)
}

// send asks the service about objects.
func (c *checker) send(ctx context.Context, resource string, objects []json.RawMessage) error {
	if len(objects) == 0 {
		return nil
	}
	body, err := json.Marshal(migration.Batch{Objects: objects, DryRun: true})
	if err != nil {
		return err
	}
	request := c.service.Post().AbsPath(migration.PathOf(c.Group, resource)).SetHeader("Content-Type", runtime.ContentTypeJSON).Body(body)
	var taken migration.Taken
	err = c.ask(ctx, request, &taken)
	switch {
	case apierrors.IsInvalid(err):
		return fmt.Errorf("%w: change the types of the service, or the definition and its objects", err)
	case err != nil:
		return fmt.Errorf("the service %s cannot be asked about %s: %w", c.Service, resource, err)
	case taken.Objects != len(objects):
		return errors.New("the service has not looked at all objects")
	}
	return nil
}
