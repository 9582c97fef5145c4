// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	rbacv1 "k8s.io/api/rbac/v1"
)

func TestTheTableOfThatNameIsReplaced(t *testing.T) {
	const page = "# Page\n<!-- begin of the rules, written by make fix-generated -->\nold\n<!-- end of the rules -->\nafter\n"
	got, err := replace(page, "rules", "new\n")
	if want := strings.Replace(page, "old", "new", 1); err != nil || got != want {
		t.Errorf("page is\n%s, error %v, want\n%s", got, err, want)
	}
	if got, err := replace(page, "flags", "new\n"); err == nil {
		t.Errorf("page without the table becomes\n%s", got)
	}
}

func TestRulesInWords(t *testing.T) {
	for want, rule := range map[string]rbacv1.PolicyRule{
		"get, list `pods`":                     {Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"pods"}},
		"get `roles`, `rolebindings` of group": {Verbs: []string{"get"}, APIGroups: []string{"group"}, Resources: []string{"roles", "rolebindings"}},
		"get `/healthz`":                       {Verbs: []string{"get"}, NonResourceURLs: []string{"/healthz"}},
		"get all resources of all groups":      {Verbs: []string{"get"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
	} {
		assert.Equal(t, want, inWords(rule), "%v", rule)
	}
}

func TestEveryTableHasRows(t *testing.T) {
	for name, table := range tables {
		if rows := strings.Count(table(), "\n| "); rows < 10 {
			t.Errorf("table %s has %d rows", name, rows)
		}
	}
}
