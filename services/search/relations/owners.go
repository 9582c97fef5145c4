// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package relations

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/query"
)

// MaxOwners bounds the owners that are read of an object.
const MaxOwners = 32

// OwnerField is the field with the owners.
const OwnerField = "metadata.ownerReferences"

var ownerPath = query.MustPath(OwnerField + "[]")

// Owner is what an object says of an owner.
type Owner struct {
	Kind      schema.GroupKind
	Name, UID string
}

// Owners returns the owners of an object, and whether these are all.
func Owners(object []byte) (all []Owner, complete bool) {
	for value := range query.ValuesAt(ownerPath, object) {
		var reference struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Name       string `json:"name"`
			UID        string `json:"uid"`
		}
		if len(value) > maxReference {
			continue
		}
		if json.Unmarshal(value, &reference) != nil || reference.Name == "" || reference.UID == "" || len(reference.Name) > maxName {
			continue
		}
		if len(all) == MaxOwners {
			return all, false
		}
		all = append(all, Owner{
			Kind: schema.GroupKind{Group: groupOf(reference.APIVersion), Kind: reference.Kind}, Name: reference.Name, UID: reference.UID,
		})
	}
	return all, true
}
