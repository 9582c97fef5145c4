// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apiserver/pkg/authentication/user"
)

// TestAnExpressionHasACost evaluates expressions that would take hours or gigabytes for a reader with many groups.
func TestAnExpressionHasACost(t *testing.T) {
	reader := &user.DefaultInfo{Name: "reader", Groups: strings.Split(strings.Repeat("group,", 1000), ",")}
	const each = "user.groups.map(a, user.groups.map(b, user.groups.map(c, user.groups.map(d, a + b + c + d))))[0][0][0]"
	long := "user.groups.map(a, " + strings.TrimSuffix(strings.Repeat("user.groups.join(a) + ", 40), " + ") + ")"
	for _, expression := range []string{each, long} {
		policy, err := newIdentities(Policy{Groups: expression})
		require.NoError(t, err)
		_, err = policy.of(t.Context(), reader)
		assert.ErrorContains(t, err, "cost", expression)
	}
}
