// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package definitions

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/storage"
)

const nameField = "metadata.name"

// only returns a predicate that matches the definitions of a scope that another predicate matches.
func (s Scope) only(predicate storage.SelectionPredicate) storage.SelectionPredicate {
	if predicate.Field == nil {
		predicate.Field = fields.Everything()
	}
	if predicate.GetAttrs == nil {
		predicate.GetAttrs = storage.DefaultClusterScopedAttr
	}
	predicate.Field = selector{predicate.Field, s}
	return predicate
}

// selector also selects by the scope.
type selector struct {
	fields.Selector
	scope Scope
}

// Matches implements fields.Selector.
func (s selector) Matches(has fields.Fields) bool {
	return s.scope.Has(has.Get(nameField)) && s.Selector.Matches(has)
}

// Empty implements fields.Selector.
func (s selector) Empty() bool { return false }

// DeepCopySelector implements fields.Selector.
func (s selector) DeepCopySelector() fields.Selector {
	return selector{s.Selector.DeepCopySelector(), s.scope}
}

// Transform implements fields.Selector.
func (s selector) Transform(change fields.TransformFunc) (fields.Selector, error) {
	changed, err := s.Selector.Transform(change)
	if err != nil {
		return nil, err
	}
	return selector{changed, s.scope}, nil
}
