// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	rbacv1 "k8s.io/api/rbac/v1"
)

func TestRulesAreBoundedInText(t *testing.T) {
	var large []string
	for i := range 20_000 {
		large = append(large, fmt.Sprint("name-of-an-object-", i))
	}
	rule := func(names ...string) *rbacv1.PolicyRule {
		return &rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: names}
	}
	v := &AccessSet{knowsHub: true, states: map[string]*cluster{"east": {}}, evaluate: func(string, *cluster) grants {
		return grants{{rule: rule("a")}, {rule: rule(large...)}, {rule: rule("b")}}
	}}
	rules, complete := v.Rules("east", "default")
	assert.False(t, complete)
	assert.Equal(t, []rbacv1.PolicyRule{*rule("a"), *rule("b")}, rules)
}
