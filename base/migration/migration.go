// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package migration is the protocol by which the objects of an API group move into an API service and out of it: paths of the service, and
// the JSON of requests and answers. The paths are below [Root], so that a right for them is a right for nothing else:
//
//	GET  /migration/GROUP            what the service serves of the group: [Group]
//	GET  /migration/GROUP/RESOURCE   a page of objects: [Page]. Parameters: version, limit, continue
//	POST /migration/GROUP/RESOURCE   takes over objects: [Batch], [Taken]
//	PUT  /migration/GROUP/RESOURCE   closes or opens the gate: [Gate]
//
// An error is a metav1.Status.
package migration

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Root is where the paths begin.
const Root = "/migration"

// MaxObjects is how many objects a batch or a page may have.
const MaxObjects = 500

// Parameters of a request for a page.
const (
	// Version is the version of the objects. It is required.
	Version = "version"
	// Limit is how many objects the page may have. It is MaxObjects if it is missing.
	Limit = "limit"
	// Continue is what the page before has.
	Continue = "continue"
)

// PathOf returns the path of a group, or that of a resource if that is not empty.
func PathOf(group, resource string) string { return path.Join(Root, group, resource) }

// Parse returns the group and the resource of a path. The resource may be empty.
func Parse(from string) (group, resource string, ok bool) {
	rest, ok := strings.CutPrefix(from, Root+"/")
	group, resource, _ = strings.Cut(rest, "/")
	return group, resource, ok && group != "" && !strings.Contains(resource, "/")
}

// Group is what a service serves of an API group.
type Group struct {
	// Resources are those whose objects can move, by name.
	Resources []Resource `json:"resources"`
}

// Resource is a resource whose objects can move.
type Resource struct {
	Name       string   `json:"name"`
	Kind       string   `json:"kind"`
	Namespaced bool     `json:"namespaced"`
	Versions   []string `json:"versions"`
	// Status is set if the resource has the subresource status.
	Status bool `json:"status"`
	// Move has closed the gate of the resource. It is empty if the gate is open.
	Move string `json:"move,omitempty"`
}

// Page is a page of objects.
type Page struct {
	// ResourceVersion is that of all pages.
	ResourceVersion string `json:"resourceVersion"`
	// Continue is for the next page. It is empty if this is the last one.
	Continue string `json:"continue,omitempty"`
	// Objects are in the version that the request asks for.
	Objects []json.RawMessage `json:"objects"`
}

// Batch is what a move brings.
type Batch struct {
	// Move is the name of the move, which has closed the gate. With DryRun, it may be empty, and the gate may be open.
	Move string `json:"move,omitempty"`
	// Objects take the place of those with their names, whatever the UIDs of these are.
	Objects []json.RawMessage `json:"objects,omitempty"`
	// Gone are objects that no longer exist where they come from. If an object with that name has another UID, it stays.
	Gone []Gone `json:"gone,omitempty"`
	// DryRun only says whether the objects can be taken over.
	DryRun bool `json:"dryRun,omitempty"`
}

// Gone is an object that no longer exists.
type Gone struct {
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
}

// Taken says what a service has done with a batch. With DryRun, it has done nothing.
type Taken struct {
	// Objects is how many objects are as the batch has them, and Gone how many do not exist.
	Objects int `json:"objects"`
	Gone    int `json:"gone"`
}

// Gate changes the gate of a resource. "" is an open gate.
type Gate struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Above is a resourceVersion of another server, or 0. All later ones of the resource are to be larger, and older ones to expire.
	Above int64 `json:"above,omitempty"`
	// Floor is in the answer to a request with Above: the first resourceVersion after that. It is 0 if the request has to be repeated.
	Floor int64 `json:"floor,omitempty"`
}

// ValidateMove returns an error if a name cannot be that of a move.
func ValidateMove(name string) error {
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return fmt.Errorf("%q cannot be the name of a move: %s", name, problems[0])
	}
	return nil
}
