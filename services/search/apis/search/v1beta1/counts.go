// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ObjectCounts has numbers of objects by the values of columns and fields.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ObjectCounts struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Columns and fields by which objects are counted.
	GroupBy []string `json:"groupBy"`
	// How many objects all groups have.
	Total int64 `json:"total"`
	// Groups, the largest first.
	Groups []CountedGroup `json:"groups"`
	// How many groups follow, and how many objects these have.
	//
	// +optional
	OtherGroups int64 `json:"otherGroups,omitempty"`
	// +optional
	OtherCount int64 `json:"otherCount,omitempty"`
}

// CountedGroup is how many objects have some values.
type CountedGroup struct {
	// Values, in the order of groupBy. A field that is not there is empty.
	Values []string `json:"values"`
	// How many objects have them.
	Count int64 `json:"count"`
}
