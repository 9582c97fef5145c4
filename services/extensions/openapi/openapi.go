// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package openapi adds custom resources to the OpenAPI v2 document of extensions, in place of the controller of apiextensions-apiserver
// (pkg/controller/openapi).
//
// That controller builds the parts of all CustomResourceDefinitions at once, in a goroutine each. With hundreds of them nothing else gets
// a CPU for seconds. The aggregator has only this process to ask, and takes it for frozen.
package openapi

import (
	"cmp"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"

	apihelpers "k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	listers "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	apiextensionsfeatures "k8s.io/apiextensions-apiserver/pkg/features"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/tripod-k8s/tripod/base/tuning/procs"
)

// Document is the OpenAPI v2 document of extensions. It builds what a CustomResourceDefinition adds when a client asks for the document,
// and keeps it until the definition changes. It implements cached.Value.
type Document struct {
	// static is the part that does not come from definitions.
	static      *spec.Swagger
	definitions listers.CustomResourceDefinitionLister
	// builders is how many definitions are built at a time.
	builders int

	mu    sync.Mutex
	parts map[state]*spec.Swagger
	// merged is the document of these parts. Its version counts up.
	merged  *spec.Swagger
	version int
}

// state identifies a CustomResourceDefinition and its spec.
type state struct {
	uid        types.UID
	generation int64
}

// New returns the document of an API server whose own part is static. It uses half of the CPUs, so that the other half serves requests.
func New(static *spec.Swagger, definitions listers.CustomResourceDefinitionLister) *Document {
	return &Document{
		static: static, definitions: definitions, builders: max(1, procs.Number()/2),
		parts: map[state]*spec.Swagger{}, merged: static,
	}
}

// Get returns the document and its version, of the definitions that are known now. Like the controller of Kubernetes, it leaves out a
// definition that cannot be built.
func (d *Document) Get() (document *spec.Swagger, version string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all, err := d.definitions.List(labels.Everything())
	if err != nil {
		return nil, "", err
	}
	established := slices.DeleteFunc(all, func(crd *apiextensionsv1.CustomResourceDefinition) bool {
		return !apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established)
	})
	if !d.has(established) {
		parts := d.build(established)
		merged, err := merge(d.static, established, parts)
		if err != nil {
			return nil, "", err
		}
		d.parts, d.merged = parts, merged
		d.version++
	}
	return d.merged, strconv.Itoa(d.version), nil
}

// has reports whether the document consists of these definitions.
func (d *Document) has(definitions []*apiextensionsv1.CustomResourceDefinition) bool {
	if len(definitions) != len(d.parts) {
		return false
	}
	return !slices.ContainsFunc(definitions, func(crd *apiextensionsv1.CustomResourceDefinition) bool {
		_, known := d.parts[stateOf(crd)]
		return !known
	})
}

// build returns the parts of the definitions: those that the document has, and new ones of the others.
func (d *Document) build(definitions []*apiextensionsv1.CustomResourceDefinition) map[state]*spec.Swagger {
	built := make([]*spec.Swagger, len(definitions))
	var building errgroup.Group
	building.SetLimit(d.builders)
	for i, crd := range definitions {
		if part, known := d.parts[stateOf(crd)]; known {
			built[i] = part
			continue
		}
		building.Go(func() error {
			var err error
			if built[i], err = part(crd); err != nil {
				klog.ErrorS(err, "The OpenAPI v2 document lacks a CustomResourceDefinition", "name", crd.Name)
			}
			return nil
		})
	}
	_ = building.Wait() // no function returns an error
	parts := make(map[state]*spec.Swagger, len(definitions))
	for i, crd := range definitions {
		parts[stateOf(crd)] = built[i]
	}
	return parts
}

func stateOf(crd *apiextensionsv1.CustomResourceDefinition) state {
	return state{crd.UID, crd.Generation}
}

// part returns what a definition adds to the document.
func part(crd *apiextensionsv1.CustomResourceDefinition) (*spec.Swagger, error) {
	all := &spec.Swagger{}
	for _, version := range crd.Spec.Versions {
		if !version.Served {
			continue
		}
		one, err := builder.BuildOpenAPIV2(crd, version.Name, builder.Options{
			V2:                      true,
			IncludeSelectableFields: utilfeature.DefaultFeatureGate.Enabled(apiextensionsfeatures.CustomResourceFieldSelectors),
		})
		if err != nil {
			return nil, err
		}
		// The static part has no defaults either. Otherwise the definitions that both have would differ.
		one.Definitions = handler.PruneDefaults(one.Definitions)
		if all, err = builder.MergeSpecs(all, one); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// merge returns a document of the parts. The same definitions result in the same document, in whatever order they are listed.
func merge(
	static *spec.Swagger, definitions []*apiextensionsv1.CustomResourceDefinition, parts map[state]*spec.Swagger,
) (*spec.Swagger, error) {
	slices.SortFunc(definitions, func(a, b *apiextensionsv1.CustomResourceDefinition) int { return cmp.Compare(a.Name, b.Name) })
	var ordered []*spec.Swagger
	for _, crd := range definitions {
		if part := parts[stateOf(crd)]; part != nil {
			ordered = append(ordered, part)
		}
	}
	return builder.MergeSpecs(static, ordered...)
}
