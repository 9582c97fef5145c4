// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tables shows objects of clusters as kubectl get does: built-in kinds with the columns of kube-apiserver, custom resources with
// those of their definition. The first column is the cluster.
package tables

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	definitioninstall "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
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
)

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

// Table makes the rows of objects of a kind, one by one: a decoded object may take 50 times its bytes.
type Table struct {
	// Columns describe the cells of each row.
	Columns []metav1.TableColumnDefinition

	cells   func(ctx context.Context, object []byte) ([]any, error)
	include metav1.IncludeObjectPolicy
}

// New returns the table of a kind. columns are those of its CustomResourceDefinition, in JSON, or empty. include is that of
// metav1.TableOptions.
func New(ctx context.Context, kind schema.GroupVersionKind, columns []byte, include metav1.IncludeObjectPolicy) (*Table, error) {
	t := &Table{include: include}
	var err error
	switch {
	case kind.Group == apiregistration.GroupName && aggregatorscheme.Scheme.Recognizes(kind):
		t.Columns, err = columnsOf(ctx, apiServices, &apiregistration.APIServiceList{})
		t.cells = cellsBy(apiServices, aggregatorscheme.Codecs, kind)
	case kind.Group == apiextensions.GroupName && definitionScheme.Recognizes(kind):
		t.Columns, err = columnsOf(ctx, definitions, &apiextensions.CustomResourceDefinitionList{})
		t.cells = cellsBy(definitions, definitionCodecs, kind)
	case legacyscheme.Scheme.Recognizes(kind) && kind.GroupKind() != withoutColumns:
		t.Columns, err = builtInColumns(kind)
		t.cells = func(_ context.Context, object []byte) ([]any, error) { return builtInCells(kind, object) }
	}
	if t.cells == nil || err != nil { // some built-in kinds have no columns of their own
		if err = t.customColumns(ctx, kind, columns); err != nil {
			return nil, err
		}
	}
	t.Columns = append([]metav1.TableColumnDefinition{clusterColumn}, t.Columns...)
	return t, nil
}

// Row returns the row of an object. If its cells cannot be made, or would have more text than the object, it has those that its metadata
// gives: a member may send an object that does not fit its kind, and columns that repeat it 64 times.
func (t *Table) Row(ctx context.Context, cluster string, object []byte) (row metav1.TableRow, err error) {
	var cells []any
	if len(object)*len(t.Columns) <= mostRepeated {
		cells, err = t.cells(ctx, object)
	}
	if cells == nil || err != nil || sizeOf(cells) > len(object)+mostOfCells {
		var metadata []byte
		if metadata, err = WithoutContent(object); err != nil {
			return row, err
		}
		if cells, err = t.cells(ctx, metadata); err != nil {
			cells = make([]any, len(t.Columns)-1)
		}
	}
	row.Cells = append([]any{cluster}, cells...)
	row.Object, err = shown(object, t.include)
	return row, err
}

const (
	// mostRepeated bounds the text that columns may make of an object, of which mostOfCells may be more than the object has.
	mostRepeated, mostOfCells = 32 << 20, 4 << 10
)

func sizeOf(cells []any) (bytes int) {
	for _, cell := range cells {
		text, _ := cell.(string)
		bytes += len(text)
	}
	return bytes
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

// customColumns sets the columns of custom resources, and of kinds that have none.
func (t *Table) customColumns(ctx context.Context, kind schema.GroupVersionKind, columns []byte) error {
	defined := unknown
	switch {
	case len(columns) > 0:
		if defined = nil; json.Unmarshal(columns, &defined) != nil {
			defined = onlyAge
		}
	case !legacyscheme.Scheme.Recognizes(kind):
		defined = onlyAge
	}
	// A column that cannot be parsed leaves the table without those after it.
	convertor, err := tableconvertor.New(defined)
	if err != nil && convertor == nil {
		return err
	}
	t.Columns, err = columnsOf(ctx, convertor, &unstructured.UnstructuredList{Object: map[string]any{}})
	t.cells = func(ctx context.Context, object []byte) ([]any, error) { return customCells(ctx, convertor, object) }
	return err
}

// columnsOf returns the columns of a list without objects.
func columnsOf(ctx context.Context, convertor rest.TableConvertor, empty runtime.Object) ([]metav1.TableColumnDefinition, error) {
	table, err := convertor.ConvertToTable(ctx, empty, nil)
	if err != nil {
		return nil, err
	}
	return table.ColumnDefinitions, nil
}

// cellsOf returns the cells of an object.
func cellsOf(ctx context.Context, convertor rest.TableConvertor, object runtime.Object) ([]any, error) {
	table, err := convertor.ConvertToTable(ctx, object, nil)
	if err != nil {
		return nil, err
	}
	return onlyRow(table)
}

// apiServices has the columns that kube-aggregator shows. They need no store.
var apiServices = &apiservicestorage.REST{}

// CustomResourceDefinitions have a scheme of their own.
var (
	definitionScheme = runtime.NewScheme()
	definitionCodecs = serializer.NewCodecFactory(definitionScheme)
)

func init() { definitioninstall.Install(definitionScheme) }

// cellsBy makes the cells of objects by what Kubernetes itself has for their kind.
func cellsBy(
	convertor rest.TableConvertor, codecs serializer.CodecFactory, kind schema.GroupVersionKind,
) func(context.Context, []byte) ([]any, error) {
	return func(ctx context.Context, text []byte) ([]any, error) {
		object, _, err := codecs.UniversalDecoder().Decode(text, &kind, nil)
		if err != nil {
			return nil, err
		}
		return cellsOf(ctx, convertor, object)
	}
}

func customCells(ctx context.Context, convertor rest.TableConvertor, text []byte) ([]any, error) {
	var object unstructured.Unstructured
	// As in Kubernetes, a number without a fraction is an integer, which a column of strings writes with all its digits.
	if err := kubernetesjson.Unmarshal(text, &object.Object); err != nil {
		return nil, err
	}
	return cellsOf(ctx, convertor, &object)
}

func onlyRow(table *metav1.Table) ([]any, error) {
	if len(table.Rows) != 1 {
		return nil, fmt.Errorf("an object has %d rows", len(table.Rows))
	}
	return table.Rows[0].Cells, nil
}

// wide gives all columns.
var wide = printers.GenerateOptions{Wide: true}

func builtInColumns(kind schema.GroupVersionKind) ([]metav1.TableColumnDefinition, error) {
	empty, err := emptyList(kind)
	if err != nil {
		return nil, err
	}
	table, err := builtIn.GenerateTable(empty, wide)
	if err != nil {
		return nil, err
	}
	return table.ColumnDefinitions, nil
}

func builtInCells(kind schema.GroupVersionKind, text []byte) ([]any, error) {
	object, _, err := legacyscheme.Codecs.UniversalDecoder().Decode(text, &kind, nil)
	if err != nil {
		return nil, err
	}
	table, err := builtIn.GenerateTable(object, wide)
	if err != nil {
		return nil, err
	}
	return onlyRow(table)
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

// OfSeveralKinds returns the table of objects of several kinds.
func OfSeveralKinds(include metav1.IncludeObjectPolicy) *Table {
	return &Table{Columns: severalKinds, include: include, cells: func(_ context.Context, text []byte) ([]any, error) {
		var object metav1.PartialObjectMetadata
		if err := json.Unmarshal(text, &object); err != nil {
			return nil, err
		}
		kind := object.GroupVersionKind()
		age := metatable.ConvertToHumanReadableDateType(object.CreationTimestamp)
		return []any{kind.Group, kind.Version, kind.Kind, object.Namespace, object.Name, age}, nil
	}}
}
