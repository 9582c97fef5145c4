// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package query

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
)

// Condition is what a field must be: there, one of some values, or with one of them in it.
type Condition struct {
	Path   []Step
	Values []string
	Exists bool
	// Text is Contains or StartsWith. IgnoreCase is of the field, and then the values have no upper case.
	Text       selection.Operator
	IgnoreCase bool
	// Bound is there if the value is compared with it.
	Bound *Bound
}

// Every reports whether the path goes through each element of a list, one of which must be as the condition says.
func (c Condition) Every() bool {
	return slices.ContainsFunc(c.Path, func(step Step) bool { return step.List() && step.Index < 0 })
}

// Negative reports whether a field must not be what it says.
func (f Field) Negative() bool {
	return f.Not || f.Operator == selection.NotEquals || f.Operator == selection.NotIn || f.Operator == selection.DoesNotExist
}

// Alternatives returns what a field says, or what it excludes, of objects of a kind: all conditions of one of the alternatives hold.
func (f Field) Alternatives(kind schema.GroupKind) (alternatives [][]Condition) {
	exists, text := f.Operator == selection.Exists || f.Operator == selection.DoesNotExist, f.Operator == Contains || f.Operator == StartsWith
	for _, path := range f.Paths {
		label := labelAt(kind, path)
		switch {
		case exists: // Kubernetes cannot ask that, nor for texts and bounds, so it is about what the object has
			alternatives = append(alternatives, []Condition{{Path: path, Exists: true}})
		case f.Bound != nil:
			alternatives = append(alternatives, []Condition{{Path: path, Bound: f.Bound}})
		case text:
			alternatives = append(alternatives, []Condition{{Path: path, Values: f.texts(), Text: f.Operator, IgnoreCase: f.IgnoreCase}})
		case label == nil:
			alternatives = append(alternatives, []Condition{{Path: path, Values: f.Values}})
		default:
			alternatives = append(alternatives, label.oneOf(f.Values)...)
		}
	}
	return alternatives
}

// texts returns the texts to look for.
func (f Field) texts() []string {
	if !f.IgnoreCase {
		return f.Values
	}
	lower := make([]string, len(f.Values))
	for i, value := range f.Values {
		lower[i] = Lowered(value)
	}
	return lower
}

// Lowered returns a text in which a to z stand for A to Z. Databases disagree about other letters.
func Lowered(text string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, text)
}

// ComputedKinds returns the kinds of objects of which a field means something else than of others.
func (f Field) ComputedKinds() (kinds []schema.GroupKind) {
	if f.Operator == Contains || f.Operator == StartsWith || f.Bound != nil {
		return nil
	}
	for kind := range computed {
		if slices.ContainsFunc(f.Paths, func(path []Step) bool { return labelAt(kind, path) != nil }) {
			kinds = append(kinds, kind)
		}
	}
	slices.SortFunc(kinds, func(a, b schema.GroupKind) int { return strings.Compare(a.String(), b.String()) })
	return kinds
}

// computedLabel is a field label of Kubernetes whose value is not what is at its path. It is the first of some fields that is not empty, or
// else a text.
type computedLabel struct {
	from      [][]Step
	otherwise string
}

// computed are the computed labels by kind and label. Kubernetes computes them in the strategies of its registries, which search does not
// link. Of all other labels, the value is that at the path, or "" if it is not there. test/suites/search compares all of them with a
// kube-apiserver.
var computed = map[schema.GroupKind]map[string]*computedLabel{
	{Kind: "Event"}:                 {"source": {from: names("source.component", "reportingComponent")}},
	{Kind: "Node"}:                  {"spec.unschedulable": {from: names("spec.unschedulable"), otherwise: "false"}},
	{Kind: "ReplicationController"}: {"status.replicas": {from: names("status.replicas"), otherwise: "0"}},
	{Kind: "Pod"}: {
		"spec.host":        {from: names("spec.nodeName")}, // its name in an early version
		"spec.hostNetwork": {from: names("spec.hostNetwork"), otherwise: "false"},
		"status.podIPs":    {}, // Kubernetes has the label, but gives it no value
	},
	{Group: "batch", Kind: "Job"}: {"status.successful": {from: names("status.succeeded"), otherwise: "0"}},
}

// names returns paths of names without dots.
func names(dotted ...string) (paths [][]Step) {
	for _, text := range dotted {
		var path []Step
		for name := range strings.SplitSeq(text, ".") {
			path = append(path, Step{Name: name})
		}
		paths = append(paths, path)
	}
	return paths
}

// labelAt returns the computed label that a path stands for, or nil.
func labelAt(kind schema.GroupKind, path []Step) *computedLabel {
	labels := computed[kind]
	if labels == nil {
		return nil
	}
	parts := make([]string, len(path))
	for i, step := range path {
		if step.List() || strings.Contains(step.Name, ".") {
			return nil
		}
		parts[i] = step.Name
	}
	return labels[strings.Join(parts, ".")]
}

// oneOf returns what it means that the value of the label is one of some values.
func (l *computedLabel) oneOf(values []string) (alternatives [][]Condition) {
	isDefault := slices.Contains(values, l.otherwise)
	values = slices.DeleteFunc(slices.Clone(values), func(v string) bool { return v == "" })
	empty := []string{""}
	var before []Condition
	for i, path := range l.from {
		if i == len(l.from)-1 && isDefault {
			values, isDefault = append(values, ""), false
		}
		if len(values) > 0 {
			alternatives = append(alternatives, append(slices.Clone(before), Condition{Path: path, Values: values}))
		}
		before = append(before, Condition{Path: path, Values: empty})
	}
	if isDefault {
		alternatives = append(alternatives, before)
	}
	return alternatives
}
