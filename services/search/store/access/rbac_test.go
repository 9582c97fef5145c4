// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	rbacv1 "k8s.io/api/rbac/v1"
)

// TestAnRBACObjectIsSmallInMemory holds for texts that are short in JSON only: they are refused before they are decoded.
func TestAnRBACObjectIsSmallInMemory(t *testing.T) {
	many := func(one string) string { return "[" + one + strings.Repeat(","+one, maxRBACValues) + "]" }
	for name, text := range map[string]string{
		"rules":       `{"rules": ` + many(`{}`) + `}`,
		"null":        `{"rules": ` + many(`null`) + `}`,
		"no rules":    `{"rules": ` + many(``) + `}`,
		"names":       `{"rules": [{"resourceNames": ` + many(`""`) + `}]}`,
		"owners":      `{"metadata": {"ownerReferences": ` + many(`{}`) + `}}`,
		"other names": `{"more": ` + many(`[]`) + `}`,
		"annotations": `{"metadata": {"annotations": {"a": ""` + strings.Repeat(`,"a\"": "\\"`, maxRBACValues) + `}}}`,
	} {
		_, err := DecodeRBAC("roles", []byte(text))
		require.ErrorIs(t, err, errLargeRBAC, name)
		assert.Equal(t, errLargeRBAC.Error(), reasonOf([]byte(text), err), name)
	}
	few := `{"rules": [` + strings.Repeat(`{"verbs": ["get"], "resources": ["pods"], "resourceNames": ["{[,\"null"]},`, 999) +
		`{"verbs": ["get", "delete"], "resources": ["pods"]}, {"verbs": ["delete"], "resources": ["pods"]}, {"verbs": ["get"], "nonResourceURLs": ["*"]}]}`
	object, err := DecodeRBAC("roles", []byte(few))
	require.NoError(t, err)
	assert.Equal(t, []rbacv1.PolicyRule{
		{Verbs: []string{"get"}, Resources: []string{"pods"}, ResourceNames: []string{`{[,"null`}}, {Verbs: []string{"get", "delete"}, Resources: []string{"pods"}},
	}, object.(*rbacv1.Role).Rules, "each rule that may show something, once")
}
