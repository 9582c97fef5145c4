// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of notes.
var GroupVersion = schema.GroupVersion{Group: "notes.example.com", Version: "v1"}

// AddToScheme adds the kind.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Note{}, &NoteList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// Paper is a colour.
// +enum
type Paper string

// The colours that notes can have.
const (
	White  Paper = "white"
	Yellow Paper = "yellow"
)

// NoteSpec is the content of a note.
type NoteSpec struct {
	// From 1 to 100 characters.
	Text string `json:"text"`
	// Higher numbers are more urgent.
	// +k8s:validation:minimum=1
	// +k8s:validation:maximum=5
	Priority int32 `json:"priority,omitempty"`
	// The colour of the paper.
	Paper Paper `json:"paper,omitempty"`
	// Where the note hangs, such as kitchen/fridge.
	// +k8s:validation:pattern="^[a-z]+(/[a-z]+)*$"
	Place string `json:"place,omitempty"`
}

// Note is a short text.
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type Note struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec NoteSpec `json:"spec"`
}

// NoteList is a list of notes.
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type NoteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Note `json:"items"`
}
