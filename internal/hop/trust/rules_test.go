// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

const (
	page  = "../../../docs/secure.md"
	begin = "<!-- begin of the rules, written by go test ./internal/hop/trust -run Page -update -->\n\n"
	end   = "\n<!-- end of the rules -->\n"
)

var update = flag.Bool("update", false, "write the rules to "+page)

func TestThePageForOperatorsListsTheRules(t *testing.T) {
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(content), begin)
	listed, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the rules:\n%s%s", page, begin, end)
	}
	want := table()
	if listed == want {
		return
	}
	if !*update {
		t.Fatalf("%s does not list the rules as they are; run go test ./internal/hop/trust -run Page -update. They are\n%s", page, want)
	}
	if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// table renders grants for people.
func table() string {
	var b strings.Builder
	b.WriteString("| service | may | because |\n|---|---|---|\n")
	for _, service := range services {
		for _, g := range grants[service] {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", strings.TrimPrefix(service, "system:tripod:"), may(g.rule), g.why)
		}
		if len(grants[service]) == 0 {
			fmt.Fprintf(&b, "| %s | nothing | |\n", strings.TrimPrefix(service, "system:tripod:"))
		}
	}
	return b.String()
}

func may(rule rbacv1.PolicyRule) string {
	if slices.Contains(rule.Resources, rbacv1.ResourceAll) && slices.Contains(rule.APIGroups, rbacv1.APIGroupAll) {
		return strings.Join(rule.Verbs, ", ") + " all resources of all groups"
	}
	text := fmt.Sprintf("%s `%s`", strings.Join(rule.Verbs, ", "), strings.Join(slices.Concat(rule.Resources, rule.NonResourceURLs), "`, `"))
	if group := strings.Join(rule.APIGroups, ""); group != "" {
		text += " of " + group
	}
	return text
}
