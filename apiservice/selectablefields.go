// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// fieldPath is the form of a selectable field, such as spec.author.
var fieldPath = regexp.MustCompile(`^[a-z][A-Za-z0-9]*(\.[a-z][A-Za-z0-9]*)*$`)

// always are the fields that every resource has.
var always = []string{"metadata.name", "metadata.namespace"}

// addSelectableFields lets field selectors of all versions have the fields of the resource.
func (o Objects[T]) addSelectableFields(t *types, g Group) error {
	for name, value := range o.SelectableFields {
		switch {
		case !fieldPath.MatchString(name):
			return fmt.Errorf("resource %s: SelectableFields has %q, which is not a path such as spec.author", o.Name, name)
		case slices.Contains(always, name):
			return fmt.Errorf("resource %s: SelectableFields has %s, which every resource has", o.Name, name)
		case value == nil:
			return fmt.Errorf("resource %s: SelectableFields has no function for %s", o.Name, name)
		}
	}
	if len(o.SelectableFields) == 0 {
		return nil
	}
	gvk, _, err := t.kindOf(g, newOf[T]())
	if err != nil {
		return err
	}
	known := slices.Sorted(slices.Values(slices.AppendSeq(slices.Clone(always), maps.Keys(o.SelectableFields))))
	var errs []error
	for _, version := range g.Versions {
		kind := schema.GroupVersionKind{Group: g.Name, Version: version, Kind: gvk.Kind}
		errs = append(errs, t.scheme.AddFieldLabelConversionFunc(kind, func(label, value string) (string, string, error) {
			if slices.Contains(known, label) {
				return label, value, nil
			}
			return "", "", fmt.Errorf("%q is not a known field selector: only %s", label, quotedList(known))
		}))
	}
	return errors.Join(errs...)
}

func quotedList(names []string) string { return `"` + strings.Join(names, `", "`) + `"` }

// selectable returns the values by which field selectors select an object.
func (o Objects[T]) selectable(object runtime.Object, into fields.Set) {
	for name, value := range o.SelectableFields {
		into[name] = value(object.(T))
	}
}
