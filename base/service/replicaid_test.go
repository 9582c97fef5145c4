// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestIdentitiesAreUnique(t *testing.T) {
	seen := map[string][3]string{}
	for _, parts := range [][3]string{
		{"host", "core", "a"},
		{"host", "core", "b"},
		{"host", "extensions", "a"},
		{"other", "core", "a"},
		{"host", "cor", "ea"},
		{"host", "core", ""},
	} {
		id := forHost(parts[0], parts[1], parts[2])
		if other, ok := seen[id]; ok {
			t.Errorf("%v and %v are both %s", parts, other, id)
		}
		seen[id] = parts
		assert.Equal(t, forHost(parts[0], parts[1], parts[2]), id, "%v: the identity changes", parts)
		// It is the name of a Lease.
		if !regexp.MustCompile(`^apiserver-[a-z2-7]{26}$`).MatchString(id) {
			t.Errorf("%v: %q has not the form of kube-apiserver's identity", parts, id)
		}
	}
}
