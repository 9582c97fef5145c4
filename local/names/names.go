// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package names has the names of what `tripod up` runs beside services, which the API services of users cannot have.
package names

import (
	"fmt"
	"slices"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/services/list"
)

// The processes that are no services, as `tripod status` shows them.
const (
	Etcd      = "etcd"
	Manager   = "controller-manager"
	Scheduler = "scheduler"
	Kwok      = "kwok"
)

// Processes are all processes that are no services.
var Processes = []string{Etcd, Manager, Scheduler, Kwok}

// ValidateService returns an error if the API service of a user cannot have a name.
func ValidateService(name string) error {
	if slices.Contains(list.OptionalNames(), name) || slices.Contains(Processes, name) {
		return fmt.Errorf("%q is a process of tripod up: choose another name", name)
	}
	return addresses.ValidateName(name)
}
