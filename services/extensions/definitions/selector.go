// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package definitions

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/storage"
)

const nameField = "metadata.name"

// restrict returns a predicate that matches the definitions of a partition that another predicate matches.
func (p Partition) restrict(predicate storage.SelectionPredicate) storage.SelectionPredicate {
	if predicate.Field == nil {
		predicate.Field = fields.Everything()
	}
	if predicate.GetAttrs == nil {
		predicate.GetAttrs = storage.DefaultClusterScopedAttr
	}
	predicate.Field = selector{predicate.Field, p}
	return predicate
}

// selector also selects by the partition.
type selector struct {
	fields.Selector
	partition Partition
}

// Matches implements fields.Selector.
func (s selector) Matches(has fields.Fields) bool {
	return s.partition.Has(has.Get(nameField)) && s.Selector.Matches(has)
}

// Empty implements fields.Selector.
func (s selector) Empty() bool { return false }

// DeepCopySelector implements fields.Selector.
func (s selector) DeepCopySelector() fields.Selector {
	return selector{s.Selector.DeepCopySelector(), s.partition}
}

// Transform implements fields.Selector.
func (s selector) Transform(change fields.TransformFunc) (fields.Selector, error) {
	changed, err := s.Selector.Transform(change)
	if err != nil {
		return nil, err
	}
	return selector{changed, s.partition}, nil
}
