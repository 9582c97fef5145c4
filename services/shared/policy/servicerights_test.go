// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"

	"github.com/tripod-k8s/tripod/base/hop/trust"
	"github.com/tripod-k8s/tripod/base/hop/trust/trusttest"
	services "github.com/tripod-k8s/tripod/services/list"
)

// What services may do is decided without Kubernetes' own evaluator of rules. Here that is the oracle.
func TestRightsOfServicesAreThoseOfTheirRulesInRBAC(t *testing.T) {
	authorizers := map[bool]int{}
	users := []string{trust.UserOf("wardle")}
	for _, name := range services.Names() {
		if name != services.Aggregator {
			users = append(users, trust.UserOf(name))
		}
	}
	for _, service := range users {
		user := trusttest.Backend(t, service)
		decides := trust.NewAuthorizer("", services.Rights())
		var rules []rbacv1.PolicyRule
		for _, grant := range services.Rights().Of(service) {
			rules = append(rules, grant.Rule)
		}
		for _, request := range requests(rules) {
			request.User = user
			want := rbac.RulesAllow(request, rules...)
			if excepted(service, request) {
				want = false
			}
			decision, _, err := decides.Authorize(t.Context(), request)
			if got := decision == authorizer.DecisionAllow; got != want || err != nil {
				t.Errorf("%s: %s: allowed %t, %v, want %t", service, describe(request), got, err, want)
			}
			authorizers[want]++
		}
	}
	if authorizers[true] < 100 || authorizers[false] < 100 {
		t.Errorf("requests allowed and not: %v, want many of both", authorizers)
	}
}

// excepted reports whether the wildcard of a service leaves out a request. The wildcards of core and search mean resources alone, and that of
// search no Secrets.
func excepted(service string, request authorizer.AttributesRecord) bool {
	switch service {
	case trust.UserOf(services.Core):
		return request.Subresource != ""
	case trust.UserOf(services.Search):
		reads := request.Verb == "list" || request.Verb == "watch"
		return reads && (request.Subresource != "" || request.APIGroup == "" && request.Resource == "secrets")
	}
	return false
}

func describe(a authorizer.AttributesRecord) string {
	return a.Verb + " " + a.Path + a.APIGroup + "/" + a.Resource + "/" + a.Subresource + " " + a.Name
}

// requests are all combinations of what rules mention, and of what they do not.
func requests(rules []rbacv1.PolicyRule) []authorizer.AttributesRecord {
	verbs, groups := []string{"get", "list", "watch", "create", "update", "patch", "delete", "*", ""}, map[string]bool{"example.com": true, "": true, "*": true}
	resources := map[[2]string]bool{{"secrets", ""}: true, {"things", ""}: true, {"things", "status"}: true, {"*", ""}: true, {"*", "status"}: true}
	paths := map[string]bool{"": true, "/": true, "/apis/": true, "/apis/x": true, "/apisx": true, "/openapi/v3/apis": true, "*": true}
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			groups[group] = true
		}
		for _, resource := range rule.Resources {
			resources[[2]string{resource, ""}] = true
			resources[[2]string{resource, "status"}] = true
		}
		for _, path := range rule.NonResourceURLs {
			paths[path], paths[path+"x"], paths[path+"/x"] = true, true, true
		}
	}
	var all []authorizer.AttributesRecord
	for _, verb := range verbs {
		for group := range groups {
			for resource := range resources {
				for _, name := range []string{"", "a"} {
					all = append(all, authorizer.AttributesRecord{
						Verb: verb, APIGroup: group, Resource: resource[0], Subresource: resource[1], Name: name, ResourceRequest: true,
					})
				}
			}
		}
		for path := range paths {
			all = append(all, authorizer.AttributesRecord{Verb: verb, Path: path})
		}
	}
	return all
}
