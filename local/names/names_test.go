// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package names

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestServicesHaveNamesOfTheirOwn(t *testing.T) {
	for _, name := range []string{"etcd", "controller-manager", "scheduler", "kwok", "search"} {
		require.EqualError(t, ValidateService(name), `"`+name+`" is a process of tripod up: choose another name`)
	}
	require.ErrorContains(t, ValidateService("core"), "is a service of Tripod itself")
	require.ErrorContains(t, ValidateService("a/b"), "is not the name of a service")
	assert.NoError(t, ValidateService("books"))
}
