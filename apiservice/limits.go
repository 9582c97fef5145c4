// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/util"
	openapierrors "k8s.io/kube-openapi/pkg/validation/errors"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// limits are those of the values of a kind, which its author writes as markers in comments, such as +k8s:validation:maximum=10. openapi-gen
// writes them into the schema. The types in a schema need no check here: objects have been decoded into Go types. nil has no limits.
//
// Some of what a schema can say is not enforced: required fields, formats, rules in CEL (+k8s:validation:cel), the keys of lists
// (+listType), limits in anyOf, oneOf and not, and limits inside of a type that refers to itself, from the second level on. No limit
// applies to a field that is absent or null. A null in a list or a map is a value.
type limits struct {
	schema    *spec.Schema
	validator *validate.SchemaValidator
}

// newLimits returns the limits of objects that have the type of an example.
func newLimits(all map[string]common.OpenAPIDefinition, example runtime.Object) *limits {
	definition := all[util.GetCanonicalTypeName(example)] // a type without JSON has none
	limited := (&limitedSchemas{all: all, within: map[string]bool{}}).of(&definition.Schema)
	if limited == nil {
		return nil
	}
	return &limits{limited, validate.NewSchemaValidator(limited, nil, "", strfmt.Default)}
}

// validate returns what exceeds a limit.
func (l *limits) validate(object runtime.Object) field.ErrorList {
	exceeded, err := l.exceeded(object)
	return append(fieldErrors(exceeded), asInternal(err)...)
}

// validateUpdate returns what exceeds a limit and did not do so before. A limit that the author adds thus stops no update of older objects.
func (l *limits) validateUpdate(object, old runtime.Object) field.ErrorList {
	exceeded, err := l.exceeded(object)
	if len(exceeded) == 0 || err != nil {
		return asInternal(err)
	}
	before, err := l.exceeded(old)
	for key := range before {
		delete(exceeded, key)
	}
	return append(fieldErrors(exceeded), asInternal(err)...)
}

func asInternal(err error) field.ErrorList {
	if err == nil {
		return nil
	}
	return field.ErrorList{field.InternalError(nil, err)}
}

// exceeded returns the values that exceed a limit, by the limit and the value.
func (l *limits) exceeded(object runtime.Object) (map[string]*openapierrors.Validation, error) {
	if l == nil {
		return nil, nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	dropNullFields(content, l.schema)
	found := map[string]*openapierrors.Validation{}
	for _, reason := range l.validator.Validate(content).Errors {
		// Other errors only say that an allOf has one of these.
		if e, ok := errors.AsType[*openapierrors.Validation](reason); ok {
			found[fmt.Sprintf("%s %d %#v", e.Name, e.Code(), e.Value)] = e
		}
	}
	return found, nil
}

// dropNullFields removes the fields of a schema that are null, as kube-apiserver does for custom resources. A nil pointer without omitempty
// is null, which no enum has.
func dropNullFields(value any, s *spec.Schema) {
	switch value := value.(type) {
	case map[string]any:
		for name, inside := range value {
			property, ok := s.Properties[name]
			switch {
			case ok && inside == nil:
				delete(value, name)
			case ok:
				dropNullFields(inside, &property)
			case s.AdditionalProperties != nil:
				dropNullFields(inside, s.AdditionalProperties.Schema)
			}
		}
	case []any:
		if s.Items != nil {
			for _, inside := range value {
				dropNullFields(inside, s.Items.Schema)
			}
		}
	}
	for i := range s.AllOf {
		dropNullFields(value, &s.AllOf[i])
	}
}

// fieldErrors returns the errors that custom resources have for the same limits, ordered by fields. Lengths are in characters, which
// k8s.io/apiextensions-apiserver calls bytes.
func fieldErrors(exceeded map[string]*openapierrors.Validation) (list field.ErrorList) {
	for _, e := range exceeded {
		path := field.NewPath(strings.TrimPrefix(e.Name, "."))
		most, _ := e.Valid.(int64)
		number, _ := e.Value.(int64)
		switch e.Code() {
		case openapierrors.EnumFailCode:
			var allowed []string
			for _, value := range e.Values {
				allowed = append(allowed, fmt.Sprint(value))
			}
			list = append(list, field.NotSupported(path, e.Value, allowed))
		case openapierrors.TooLongFailCode:
			list = append(list, field.TooLongCharacters(path, fmt.Sprint(e.Value), int(most)))
		case openapierrors.MaxItemsFailCode, openapierrors.TooManyPropertiesCode:
			list = append(list, field.TooMany(path, int(number), int(most)))
		default:
			list = append(list, field.Invalid(path, e.Value, e.Error()))
		}
	}
	slices.SortFunc(list, func(a, b *field.Error) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Error(), b.Error()))
	})
	return list
}

// limitedSchemas finds limits in schemas.
type limitedSchemas struct {
	all map[string]common.OpenAPIDefinition
	// within are the names of the schemas that of was called for and that it has not left. A type that refers to itself has no limits
	// further inside.
	within map[string]bool
}

// of returns a schema that has nothing but the limits of another one and of those that it refers to, or nil if it has none.
func (l *limitedSchemas) of(s *spec.Schema) *spec.Schema {
	limited := &spec.Schema{SchemaProps: spec.SchemaProps{
		Maximum: s.Maximum, ExclusiveMaximum: s.ExclusiveMaximum, Minimum: s.Minimum, ExclusiveMinimum: s.ExclusiveMinimum,
		MaxLength: s.MaxLength, MinLength: s.MinLength, Pattern: s.Pattern, MaxItems: s.MaxItems, MinItems: s.MinItems,
		UniqueItems: s.UniqueItems, MultipleOf: s.MultipleOf, Enum: s.Enum, MaxProperties: s.MaxProperties, MinProperties: s.MinProperties,
	}}
	found := s.Maximum != nil || s.Minimum != nil || s.MaxLength != nil || s.MinLength != nil || s.Pattern != "" || s.MaxItems != nil ||
		s.MinItems != nil || s.UniqueItems || s.MultipleOf != nil || s.Enum != nil || s.MaxProperties != nil || s.MinProperties != nil
	for name, property := range s.Properties {
		if inside := l.of(&property); inside != nil {
			found = true
			limited.SetProperty(name, *inside)
		}
	}
	if s.Items != nil && s.Items.Schema != nil {
		if inside := l.of(s.Items.Schema); inside != nil {
			found = true
			limited.Items = &spec.SchemaOrArray{Schema: inside}
		}
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		if inside := l.of(s.AdditionalProperties.Schema); inside != nil {
			found = true
			limited.AdditionalProperties = &spec.SchemaOrBool{Allows: true, Schema: inside}
		}
	}
	if inside := l.referred(s.Ref.String()); inside != nil {
		found = true
		limited.AllOf = append(limited.AllOf, *inside)
	}
	for _, part := range s.AllOf {
		if inside := l.of(&part); inside != nil {
			found = true
			limited.AllOf = append(limited.AllOf, *inside)
		}
	}
	if !found {
		return nil
	}
	return limited
}

// referred is of for the schema that has a name.
func (l *limitedSchemas) referred(name string) *spec.Schema {
	if name == "" || l.within[name] {
		return nil
	}
	l.within[name] = true
	defer delete(l.within, name)
	definition := l.all[name]
	return l.of(&definition.Schema)
}
