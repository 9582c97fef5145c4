// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tables shows objects of clusters as kubectl get does: built-in kinds with the columns of kube-apiserver, custom resources with those of their
// definition. The first column is the cluster.
package tables

import (
	"context"
	"encoding/json"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubernetesjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	apiservicestorage "k8s.io/kube-aggregator/pkg/registry/apiservice/etcd"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/admissionregistration/install" // no other package of search registers these kinds
	_ "k8s.io/kubernetes/pkg/apis/apiserverinternal/install"
	_ "k8s.io/kubernetes/pkg/apis/flowcontrol/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/node/install"
	_ "k8s.io/kubernetes/pkg/apis/storagemigration/install"
	"k8s.io/kubernetes/pkg/printers"
	"k8s.io/kubernetes/pkg/printers/internalversion"

	"github.com/tripod-k8s/tripod/services/search/store"
)

// Row is an object to show.
type Row struct {
	Cluster string
	JSON    []byte
}

// builtIn has the columns of built-in kinds.
var builtIn = printers.NewTableGenerator().With(internalversion.AddHandlers)

// clusterColumn is the first column of each table. Clusterpedia has given it this name.
var clusterColumn = metav1.TableColumnDefinition{Name: "Cluster", Type: "string", Description: "The cluster of the object"}

// withoutColumns is a kind that kube-apiserver shows without the columns that Kubernetes has for it.
var withoutColumns = schema.GroupKind{Group: "storage.k8s.io", Kind: "CSIStorageCapacity"}

// unknown are the columns of kinds that have none of their own, as in kube-apiserver.
var unknown = []apiextensionsv1.CustomResourceColumnDefinition{{Name: "Created At", Type: "date", JSONPath: ".metadata.creationTimestamp"}}

// onlyAge are the columns of custom resources whose definition names none.
var onlyAge = []apiextensionsv1.CustomResourceColumnDefinition{{Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp"}}

// New returns the table of objects of a kind. columns are those of its CustomResourceDefinition, in JSON, or empty. includeObject is that of
// metav1.TableOptions.
func New(ctx context.Context, kind schema.GroupVersionKind, columns []byte, rows []Row, includeObject metav1.IncludeObjectPolicy) (*metav1.Table, error) {
	table, err := cellsOf(ctx, kind, columns, rows)
	if err != nil {
		return nil, err
	}
	table.TypeMeta = metav1.TypeMeta{APIVersion: metav1.SchemeGroupVersion.String(), Kind: "Table"}
	if table.Rows == nil {
		table.Rows = []metav1.TableRow{} // not null, which programs that read tables may not expect
	}
	table.ColumnDefinitions = append([]metav1.TableColumnDefinition{clusterColumn}, table.ColumnDefinitions...)
	for i := range table.Rows {
		table.Rows[i].Cells = append([]any{rows[i].Cluster}, table.Rows[i].Cells...)
		if table.Rows[i].Object, err = shown(rows[i].JSON, includeObject); err != nil {
			return nil, err
		}
	}
	return table, nil
}

// shown returns what a row has besides its cells.
func shown(text []byte, policy metav1.IncludeObjectPolicy) (runtime.RawExtension, error) {
	switch policy {
	case metav1.IncludeNone:
		return runtime.RawExtension{}, nil
	case metav1.IncludeObject:
		return runtime.RawExtension{Raw: text}, nil
	}
	raw, err := Metadata(text)
	return runtime.RawExtension{Raw: raw}, err
}

// partial is an object without its content.
type partial struct {
	Kind       string          `json:"kind"`
	APIVersion string          `json:"apiVersion"`
	Metadata   json.RawMessage `json:"metadata"`
}

// Metadata returns the metadata of an object as a PartialObjectMetadata.
func Metadata(object []byte) ([]byte, error) {
	var p partial
	if err := json.Unmarshal(object, &p); err != nil {
		return nil, err
	}
	p.Kind, p.APIVersion = "PartialObjectMetadata", metav1.SchemeGroupVersion.String()
	return json.Marshal(p)
}

// WithoutContent returns an object that has only its kind and its metadata.
func WithoutContent(object []byte) ([]byte, error) {
	var p partial
	if err := json.Unmarshal(object, &p); err != nil {
		return nil, err
	}
	return json.Marshal(p)
}

func cellsOf(ctx context.Context, kind schema.GroupVersionKind, columns []byte, rows []Row) (*metav1.Table, error) {
	if aggregatorscheme.Scheme.Recognizes(kind) {
		if table, err := apiServiceCells(ctx, kind, rows); err == nil {
			return table, nil
		}
	}
	if legacyscheme.Scheme.Recognizes(kind) && kind.GroupKind() != withoutColumns {
		if table, err := builtInCells(kind, rows); err == nil {
			return table, nil
		} // a kind without columns of its own, or an object that the member's version of Kubernetes writes in another way
	}
	definitions := unknown
	switch {
	case len(columns) > 0:
		if definitions = nil; json.Unmarshal(columns, &definitions) != nil {
			definitions = onlyAge
		}
	case !legacyscheme.Scheme.Recognizes(kind):
		definitions = onlyAge
	}
	// A column that cannot be parsed leaves the table without those after it.
	convertor, err := tableconvertor.New(definitions)
	if err != nil && convertor == nil {
		return nil, err
	}
	return customCells(ctx, convertor, rows)
}

func customCells(ctx context.Context, convertor rest.TableConvertor, rows []Row) (*metav1.Table, error) {
	list := &unstructured.UnstructuredList{Object: map[string]any{}}
	for _, row := range rows {
		var object unstructured.Unstructured
		// As in Kubernetes, a number without a fraction is an integer, which a column of strings writes with all its digits.
		if err := kubernetesjson.Unmarshal(row.JSON, &object.Object); err != nil {
			return nil, err
		}
		list.Items = append(list.Items, object)
	}
	return convertor.ConvertToTable(ctx, list, nil)
}

// apiServiceColumns are the columns that kube-aggregator shows. They need no store.
var apiServiceColumns = &apiservicestorage.REST{}

func apiServiceCells(ctx context.Context, kind schema.GroupVersionKind, rows []Row) (*metav1.Table, error) {
	list := &apiregistration.APIServiceList{}
	for _, row := range rows {
		object, _, err := aggregatorscheme.Codecs.UniversalDecoder().Decode(row.JSON, &kind, nil)
		if err != nil {
			return nil, err
		}
		service, ok := object.(*apiregistration.APIService)
		if !ok {
			return nil, fmt.Errorf("%T is no APIService", object)
		}
		list.Items = append(list.Items, *service)
	}
	return apiServiceColumns.ConvertToTable(ctx, list, nil)
}

func builtInCells(kind schema.GroupVersionKind, rows []Row) (*metav1.Table, error) {
	table := &metav1.Table{}
	options := printers.GenerateOptions{Wide: true}
	empty, err := emptyList(kind)
	if err != nil {
		return nil, err
	}
	whole, err := builtIn.GenerateTable(empty, options)
	if err != nil {
		return nil, err
	}
	table.ColumnDefinitions = whole.ColumnDefinitions
	for _, row := range rows {
		object, _, err := legacyscheme.Codecs.UniversalDecoder().Decode(row.JSON, &kind, nil)
		if err != nil {
			return nil, err
		}
		one, err := builtIn.GenerateTable(object, options)
		if err != nil {
			return nil, err
		}
		if len(one.Rows) != 1 {
			return nil, fmt.Errorf("an object of %s has %d rows", kind, len(one.Rows))
		}
		table.Rows = append(table.Rows, one.Rows[0])
	}
	return table, nil
}

func emptyList(kind schema.GroupVersionKind) (runtime.Object, error) {
	list, err := legacyscheme.Scheme.New(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err != nil {
		return nil, err
	}
	return legacyscheme.Scheme.ConvertToVersion(list, schema.GroupVersion{Group: kind.Group, Version: runtime.APIVersionInternal})
}

// severalKinds are the columns of objects of several kinds. Clusterpedia has given them these names.
var severalKinds = []metav1.TableColumnDefinition{
	clusterColumn, {Name: "Group", Type: "string"}, {Name: "Version", Type: "string"}, {Name: "Kind", Type: "string"},
	{Name: "Namespace", Type: "string"}, {Name: "Name", Type: "string", Format: "name"}, {Name: "Age", Type: "string"},
}

// OfSeveralKinds returns the table of objects of several kinds. Each row has its object.
func OfSeveralKinds(rows []Row) (*metav1.Table, error) {
	table := &metav1.Table{ColumnDefinitions: severalKinds}
	for _, row := range rows {
		var object metav1.PartialObjectMetadata
		if err := json.Unmarshal(row.JSON, &object); err != nil {
			return nil, err
		}
		kind := object.GroupVersionKind()
		table.Rows = append(table.Rows, metav1.TableRow{
			Cells: []any{object.Annotations[store.ClusterAnnotation], kind.Group, kind.Version, kind.Kind, object.Namespace, object.Name,
				metatable.ConvertToHumanReadableDateType(object.CreationTimestamp)},
			Object: runtime.RawExtension{Object: &object},
		})
	}
	return table, nil
}
