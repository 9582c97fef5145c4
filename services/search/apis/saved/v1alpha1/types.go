// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 has the kinds of the API group search.tripod-k8s.io: searches that people keep.
//
// controller-gen makes the CustomResourceDefinitions of the types, with their comments as descriptions.
//
// +groupName=search.tripod-k8s.io
package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the version of this package.
var GroupVersion = schema.GroupVersion{Group: "search.tripod-k8s.io", Version: "v1alpha1"}

// Resource is that of SavedSearch.
const Resource = "savedsearches"

// Types of conditions.
const (
	// Evaluated is true if the last evaluation had an answer.
	Evaluated = "Evaluated"
	// Exceeded is true while there are more matches than the threshold says.
	Exceeded = "Exceeded"
)

// SavedSearch is a search that people open again, and whose matches search counts.
//
// +kubebuilder:resource:scope=Cluster,path=savedsearches,singular=savedsearch
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Matches,type=integer,JSONPath=".status.matches"
// +kubebuilder:printcolumn:name=Evaluated,type=string,JSONPath=".status.conditions[?(@.type == 'Evaluated')].reason"
// +kubebuilder:printcolumn:name=Exceeded,type=string,JSONPath=".status.conditions[?(@.type == 'Exceeded')].status"
// +kubebuilder:printcolumn:name=Last,type=date,JSONPath=".status.lastEvaluation"
// +kubebuilder:printcolumn:name=Description,type=string,JSONPath=".spec.description",priority=1
type SavedSearch struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec SavedSearchSpec `json:"spec"`
	// +optional
	Status SavedSearchStatus `json:"status"`
}

// SavedSearchSpec is what is searched for.
type SavedSearchSpec struct {
	// What the search is for, for people.
	//
	// +kubebuilder:validation:MaxLength=1024
	Description string `json:"description,omitempty"`
	// Parameters of the collection "any" of search, such as resources, groups, clusters, words, labelSelector and fieldSelector.
	//
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	Parameters map[string]Value `json:"parameters"`
	// If there is one, search exports whether it is exceeded.
	//
	// +optional
	Threshold *Threshold `json:"threshold,omitempty"`
	// Seconds between two evaluations.
	//
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=30
	// +kubebuilder:validation:Maximum=86400
	IntervalSeconds int64 `json:"intervalSeconds,omitempty"`
}

// Value is that of a parameter.
//
// +kubebuilder:validation:MaxLength=2048
type Value string

// Threshold is exceeded if there are more matches for some time.
type Threshold struct {
	// It takes more matches than these.
	//
	// +kubebuilder:validation:Minimum=0
	MoreThan int64 `json:"moreThan"`
	// For so many minutes.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10080
	ForMinutes int64 `json:"forMinutes,omitempty"`
}

// SavedSearchStatus is what the last evaluation has found.
type SavedSearchStatus struct {
	// User by whose rights search counts. An administrator binds roles to it. Other parameters make another user.
	User string `json:"user,omitempty"`
	// Number of objects that this user may list and that the search finds.
	Matches *int64 `json:"matches,omitempty"`
	// When search last tried to count them.
	LastEvaluation *metav1.Time `json:"lastEvaluation,omitempty"`
	// A replica that counts now.
	Counting *Counting `json:"counting,omitempty"`
	// Generation that the last evaluation was about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Since when there are more matches than the threshold says.
	ExceededSince *metav1.Time       `json:"exceededSince,omitempty"`
	Conditions    []metav1.Condition `json:"conditions,omitempty"`
}

// Counting says that a replica counts a search.
type Counting struct {
	Since      metav1.MicroTime `json:"since"`
	Generation int64            `json:"generation"`
}

// Values returns the parameters as those of a URL.
func (s *SavedSearch) Values() url.Values {
	values := url.Values{}
	for name, value := range s.Spec.Parameters {
		values.Set(name, string(value))
	}
	return values
}

// User returns the name of the user by whose rights a search is counted. It has a digest of the parameters: rights are those of one search,
// and other parameters need rights of their own. Nothing else may say whose rights count, above all no field that a
// writer of the object may set.
func (s *SavedSearch) User() string {
	const digits = 40 // 160 bits, of which no two texts are known to have the same
	sum := sha256.Sum256([]byte(s.Values().Encode()))
	return "system:saved-search:" + s.Name + ":" + hex.EncodeToString(sum[:])[:digits]
}

// AllUsers is the group of these users.
const AllUsers = "system:saved-searches"
