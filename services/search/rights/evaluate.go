// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"

	"github.com/tripod-k8s/tripod/services/search/store/access"
)

// Limits of what a cluster grants one reader. A namespace with more grants this reader nothing.
const (
	maxRules            = 10_000    // different ones that apply everywhere; if they are more, the cluster grants nothing
	maxRulesOfNamespace = 2_000     // different ones that apply in one namespace
	maxRulesOfAll       = 20_000    // different ones in all namespaces
	maxPlaces           = 1_000_000 // pairs of a rule and a namespace
	visitsOfRule        = 20        // how often each rule may come by another binding
)

// rulesIn returns the different rules that apply to a reader in a namespace, or everywhere, and false if they are more than most.
func rulesIn(
	ctx context.Context, by validation.AuthorizationRuleResolver, who user.Info, namespace string, most int,
) (found []*rbacv1.PolicyRule, ok bool) {
	seen, visits := sets.New[*rbacv1.PolicyRule](), 0
	ok = true
	by.VisitRulesFor(ctx, who, namespace, func(_ fmt.Stringer, rule *rbacv1.PolicyRule, _ error) bool {
		if visits++; access.IsReadable(rule) && !seen.Has(rule) {
			seen.Insert(rule)
			found = append(found, rule)
		}
		ok = len(found) <= most && visits <= most*visitsOfRule
		return ok
	})
	return found, ok
}

// grantsOf returns what the cluster grants a reader.
func (c *cluster) grantsOf(ctx context.Context, reader user.Info) (grants, error) {
	if c.unknown != "" {
		return nil, nil
	}
	who, err := c.of(ctx, reader)
	if err != nil || who == nil {
		return nil, err
	}
	everywhere, ok := rulesIn(ctx, validation.NewDefaultRuleResolver(c, c, c, c), who, "", maxRules)
	if !ok {
		return nil, fmt.Errorf("more than %d rules of ClusterRoles apply to the reader", maxRules)
	}
	m := merge{index: map[[sha256.Size]byte]int{}}
	for _, rule := range everywhere {
		m.all = append(m.all, grant{rule: rule})
	}
	m.in(c.inNamespaces(ctx, who))
	return m.all, nil
}

// rulesOf are those that apply to a reader in a namespace.
type rulesOf struct {
	namespace string
	rules     []*rbacv1.PolicyRule
}

// inNamespaces returns the rules that apply to a reader in each namespace, those with most at the end.
func (c *cluster) inNamespaces(ctx context.Context, who user.Info) (all []rulesOf) {
	namespaces := sets.New(c.namespacesOf[subject{name: who.GetName()}]...)
	for _, group := range who.GetGroups() {
		namespaces.Insert(c.namespacesOf[subject{group: true, name: group}]...)
	}
	within := validation.NewDefaultRuleResolver(c, c, c, noBindings{})
	for _, namespace := range sets.List(namespaces) {
		rules, ok := rulesIn(ctx, within, who, namespace, maxRulesOfNamespace)
		if !ok {
			klog.V(2).InfoS("The RBAC of a namespace has too many rules for a reader", "namespace", namespace, "user", who.GetName(), "limit",
				maxRulesOfNamespace)
			continue
		}
		all = append(all, rulesOf{namespace, rules})
	}
	slices.SortStableFunc(all, func(a, b rulesOf) int { return cmp.Compare(len(a.rules), len(b.rules)) })
	return all
}

// merge makes one grant of equal rules, and has grants share equal sets of namespaces.
type merge struct {
	all   grants
	index map[[sha256.Size]byte]int
}

func (m *merge) in(namespaces []rulesOf) {
	var rules []*rbacv1.PolicyRule
	var in [][]string // the namespaces of each rule
	texts, places := map[*rbacv1.PolicyRule]int{}, 0
	for i, of := range namespaces {
		if places += len(of.rules); len(rules)+len(of.rules) > maxRulesOfAll || places > maxPlaces {
			klog.V(2).InfoS("The RBAC of namespaces has too many rules for a reader", "namespaces", len(namespaces)-i, "first", of.namespace)
			break
		}
		for _, rule := range of.rules {
			at, known := texts[rule]
			if !known {
				text := sha256.Sum256([]byte(access.RuleText(rule)))
				if at, known = m.index[text]; !known {
					at = len(rules)
					rules, in, m.index[text] = append(rules, rule), append(in, nil), at
				}
				texts[rule] = at
			}
			if last := len(in[at]) - 1; last < 0 || in[at][last] != of.namespace {
				in[at] = append(in[at], of.namespace)
			}
		}
	}
	same := map[[sha256.Size]byte]sets.Set[string]{}
	for i, rule := range rules {
		text := sha256.Sum256([]byte(strings.Join(in[i], "\n")))
		if same[text] == nil {
			same[text] = sets.New(in[i]...)
		}
		m.all = append(m.all, grant{rule: rule, namespaces: same[text]})
	}
}
