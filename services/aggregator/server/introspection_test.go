// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestACheckHasOneLine(t *testing.T) {
	require.NoError(t, inOneLine(nil, nil))
	assert.EqualError(t, inOneLine(errors.New("core differs"), nil, errors.New("extensions differs")), "core differs; extensions differs")
}
