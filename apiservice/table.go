// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Column is a column of what kubectl get shows.
type Column[T runtime.Object] struct {
	// Name is the heading.
	Name string
	// Type is string if empty. The others are boolean, date, integer and number, as in metav1.TableColumnDefinition.
	Type string
	// Description is for kubectl get -o wide and for programs.
	Description string
	// Wide columns are shown by -o wide only.
	Wide bool
	// Value returns what is in the column for an object: something that JSON can hold.
	Value func(object T) any
}

// age is the last column, as kube-apiserver shows it. rest.NewDefaultTableConvertor shows the time of creation.
var age = metav1.TableColumnDefinition{Name: "Age", Type: "string", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"]}

// table adds columns to the name that rest.NewDefaultTableConvertor shows, and an age.
type table[T runtime.Object] struct {
	rest.TableConvertor
	columns []Column[T]
}

func newTable[T runtime.Object](resource schema.GroupResource, columns []Column[T]) rest.TableConvertor {
	plain := rest.NewDefaultTableConvertor(resource)
	if len(columns) == 0 {
		return plain
	}
	return table[T]{plain, columns}
}

// ConvertToTable implements rest.TableConvertor.
func (t table[T]) ConvertToTable(ctx context.Context, object, options runtime.Object) (*metav1.Table, error) {
	shown, err := t.TableConvertor.ConvertToTable(ctx, object, options)
	if err != nil {
		return nil, err
	}
	if len(shown.ColumnDefinitions) > 0 {
		shown.ColumnDefinitions = slices.Concat(shown.ColumnDefinitions[:1], t.definitions(), []metav1.TableColumnDefinition{age})
	}
	row := 0
	add := func(object runtime.Object) error {
		if typed, ok := object.(T); ok && row < len(shown.Rows) {
			created := mustAccess(object).GetCreationTimestamp()
			shown.Rows[row].Cells = slices.Concat(shown.Rows[row].Cells[:1], t.cells(typed),
				[]any{metatable.ConvertToHumanReadableDateType(created)})
		}
		row++
		return nil
	}
	if meta.IsListType(object) {
		return shown, meta.EachListItem(object, add)
	}
	return shown, add(object)
}

func (t table[T]) definitions() []metav1.TableColumnDefinition {
	var all []metav1.TableColumnDefinition
	for _, c := range t.columns {
		definition := metav1.TableColumnDefinition{Name: c.Name, Type: c.Type, Description: c.Description}
		if definition.Type == "" {
			definition.Type = "string"
		}
		if c.Wide {
			definition.Priority = 1
		}
		all = append(all, definition)
	}
	return all
}

func (t table[T]) cells(object T) []any {
	var all []any
	for _, c := range t.columns {
		all = append(all, c.Value(object))
	}
	return all
}
