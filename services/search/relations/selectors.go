// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package relations

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/query"
)

const (
	// maxSelector bounds the text of a selector, and maxRequirements what it may ask for: a statement has a condition for each.
	maxSelector, maxRequirements = 64 << 10, 32
)

// selectors says where resources have a selector of the pods in their namespace.
var selectors = map[schema.GroupResource]struct {
	field string
	path  []query.Step
	// isMap is set if the selector is a map of labels, of which none selects nothing.
	isMap bool
}{
	services: {field: "spec.selector", path: query.MustPath("spec.selector"), isMap: true},
	{Group: "networking.k8s.io", Resource: "networkpolicies"}: {field: "spec.podSelector", path: query.MustPath("spec.podSelector")},
	{Group: "policy", Resource: "poddisruptionbudgets"}:       {field: "spec.selector", path: query.MustPath("spec.selector")},
}

// Selecting are the resources whose objects select pods, in the order of answers.
var Selecting = []schema.GroupResource{
	services, {Group: "networking.k8s.io", Resource: "networkpolicies"}, {Group: "policy", Resource: "poddisruptionbudgets"},
}

// Pods is the resource that is selected.
var Pods = pods

// Selector returns the selector of an object, or nil if that selects nothing, and the field that has it. readable is false if the selector
// has too much, or makes no sense.
func Selector(resource schema.GroupResource, object []byte) (selector labels.Selector, field string, readable bool) {
	at, selects := selectors[resource]
	if !selects {
		return nil, "", true
	}
	for value := range query.ValuesAt(at.path, object) {
		if len(value) > maxSelector {
			return nil, at.field, false
		}
		var selector metav1.LabelSelector
		var err error
		if at.isMap {
			err = json.Unmarshal(value, &selector.MatchLabels)
		} else {
			err = json.Unmarshal(value, &selector)
		}
		if err != nil || len(selector.MatchLabels)+len(selector.MatchExpressions) > maxRequirements {
			return nil, at.field, false
		}
		if at.isMap && len(selector.MatchLabels) == 0 || string(value) == "null" {
			return nil, at.field, true
		}
		valid, err := metav1.LabelSelectorAsSelector(&selector)
		if err != nil {
			return nil, at.field, false
		}
		return valid, at.field, countValues(valid) <= query.MaxValues
	}
	return nil, at.field, true
}

// countValues returns how many values a statement has for a selector.
func countValues(selector labels.Selector) (n int) {
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		n += len(r.ValuesUnsorted())
	}
	return n
}

// Labels returns the labels of an object, as far as they are labels.
func Labels(object []byte) labels.Set {
	set := labels.Set{}
	for value := range query.ValuesAt(query.MustPath("metadata.labels"), object) {
		json.Unmarshal(value, &set) //nolint:errcheck // the database has labels of objects only
		break
	}
	return set
}
