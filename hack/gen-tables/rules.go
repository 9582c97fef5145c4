// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/tripod-k8s/tripod/services/list"
)

// rules renders what services may do in their own name.
func rules() string {
	var b strings.Builder
	b.WriteString("\n| service | may | because |\n|---|---|---|\n")
	for _, user := range list.Grantees() {
		service := strings.TrimPrefix(user, "system:tripod:")
		grants := list.Rights().Of(user)
		for _, grant := range grants {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", service, inWords(grant.Rule), grant.Why)
		}
		if len(grants) == 0 {
			fmt.Fprintf(&b, "| %s | nothing | |\n", service)
		}
	}
	b.WriteString("\n")
	return b.String()
}

func inWords(rule rbacv1.PolicyRule) string {
	verbs := strings.Join(rule.Verbs, ", ")
	if slices.Contains(rule.Resources, rbacv1.ResourceAll) && slices.Contains(rule.APIGroups, rbacv1.APIGroupAll) {
		return verbs + " all resources of all groups"
	}
	text := fmt.Sprintf("%s `%s`", verbs, strings.Join(slices.Concat(rule.Resources, rule.NonResourceURLs), "`, `"))
	if group := strings.Join(rule.APIGroups, ""); group != "" {
		text += " of " + group
	}
	if len(rule.ResourceNames) > 0 {
		text += ", only `" + strings.Join(rule.ResourceNames, "` and `") + "`"
	}
	return text
}
