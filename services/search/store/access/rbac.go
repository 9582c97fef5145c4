// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// An RBAC object has at most maxRBACParts rules and subjects, and maxRBACValues values: `{}` and `""` are short in JSON, but not in memory.
const (
	maxRBACParts  = 10_000
	maxRBACValues = 100_000
)

var errLargeRBAC = fmt.Errorf("it has more than %d rules and subjects, or more than %d values", maxRBACParts, maxRBACValues)

// boundRBAC counts the objects and the values of a JSON text, before they take memory.
func boundRBAC(text []byte) error {
	parts, values := 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case '{', 'n': // null is an empty rule, too
			parts++
			values++
		case '[', ',':
			values++
		}
	}
	if parts > maxRBACParts || values > maxRBACValues {
		return errLargeRBAC
	}
	return nil
}

// readVerbs are those that rights decide about.
var readVerbs = []string{"get", "list", "watch", rbacv1.VerbAll}

// IsReadable reports whether a rule may let a reader see something.
func IsReadable(rule *rbacv1.PolicyRule) bool {
	reads := func(verb string) bool { return slices.Contains(readVerbs, verb) }
	return rule != nil && len(rule.Resources) > 0 && slices.ContainsFunc(rule.Verbs, reads)
}

// RuleText returns the same text for equal rules only, about resources.
func RuleText(rule *rbacv1.PolicyRule) string {
	return fmt.Sprintf("%q%q%q%q", rule.Verbs, rule.APIGroups, rule.Resources, rule.ResourceNames)
}

// readableRules returns the rules that may let a reader see something, each of them once.
func readableRules(rules []rbacv1.PolicyRule) (some []rbacv1.PolicyRule) {
	seen := map[string]bool{}
	for i := range rules {
		if !IsReadable(&rules[i]) {
			continue
		}
		rules[i].NonResourceURLs = nil
		if text := RuleText(&rules[i]); !seen[text] {
			seen[text] = true
			some = append(some, rules[i])
		}
	}
	return some
}

// DecodeRBAC reads an RBAC object as Kubernetes does, without what decides nothing.
func DecodeRBAC(resource string, text []byte) (object metav1.Object, err error) {
	switch resource {
	case "roles":
		object = &rbacv1.Role{}
	case "rolebindings":
		object = &rbacv1.RoleBinding{}
	case "clusterroles":
		object = &rbacv1.ClusterRole{}
	case "clusterrolebindings":
		object = &rbacv1.ClusterRoleBinding{}
	default:
		return nil, fmt.Errorf("%s are no RBAC objects", resource)
	}
	if err := boundRBAC(text); err != nil {
		return nil, err
	}
	if err := utiljson.Unmarshal(text, object); err != nil {
		return nil, err
	}
	name, namespace := object.GetName(), object.GetNamespace()
	switch o := object.(type) {
	case *rbacv1.Role:
		o.ObjectMeta, o.Rules = metav1.ObjectMeta{}, readableRules(o.Rules)
	case *rbacv1.RoleBinding:
		o.ObjectMeta = metav1.ObjectMeta{}
	case *rbacv1.ClusterRole:
		o.ObjectMeta, o.AggregationRule = metav1.ObjectMeta{}, nil // the rules are those that the controller of the cluster has made of it
		o.Rules = readableRules(o.Rules)
	case *rbacv1.ClusterRoleBinding:
		o.ObjectMeta = metav1.ObjectMeta{}
	}
	object.SetName(name)
	object.SetNamespace(namespace)
	return object, nil
}

// normalizedRBAC returns the same text for RBAC objects that grant the same.
func normalizedRBAC(resource string, text []byte) (string, error) {
	object, err := DecodeRBAC(resource, text)
	if err != nil {
		return "", err
	}
	var parts []string
	var to rbacv1.RoleRef
	switch o := object.(type) {
	case *rbacv1.Role:
		parts = texts(o.Rules)
	case *rbacv1.ClusterRole:
		parts = texts(o.Rules)
	case *rbacv1.RoleBinding:
		parts, to = texts(o.Subjects), o.RoleRef
	case *rbacv1.ClusterRoleBinding:
		parts, to = texts(o.Subjects), o.RoleRef
	}
	return strings.Join(append(parts, texts([]rbacv1.RoleRef{to})...), "\n"), nil
}

// texts returns values as texts, in one order.
func texts[T any](values []T) []string {
	all := make([]string, 0, len(values)+1)
	for _, value := range values {
		text, err := json.Marshal(value)
		if err != nil {
			panic(err) // there is nothing in these types that has no JSON
		}
		all = append(all, string(text))
	}
	slices.Sort(all)
	return slices.Compact(all)
}
