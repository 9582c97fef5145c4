// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"

	"github.com/tripod-k8s/tripod/base/hop/roundtrip"
)

// named returns a request for another object.
func named(name string, attributes authorizer.Attributes) authorizer.Attributes {
	record := attributes.(authorizer.AttributesRecord)
	record.Name = name
	return record
}

func TestCoreSaysWhatThePodsOfANodeNeed(t *testing.T) {
	for name, options := range map[string]*Options{
		"by flag":                            withModes("Node", "RBAC"),
		"by file":                            {ConfigFile: writeFile(t, configuration+"- {type: Node, name: node}\n- {type: RBAC, name: rbac}\n")},
		"before a mode that denies the rest": withModes("Node", "AlwaysDeny"),
	} {
		t.Run(name, func(t *testing.T) {
			core := newFakeCore(t)
			core.allow("one")
			core.start()
			p := run(t, options, core)
			eventually(t, "policy is synced", p.Synced)
			readSecret := to(node, "get", "", "secrets")
			if !allowed(t, p, readSecret) {
				t.Error("a node may not read the secret of its pod")
			}
			if allowed(t, p, named("two", readSecret)) {
				t.Error("a node may read the secret of another's pod")
			}
			core.allow("two")
			if allowed(t, p, readSecret) || !allowed(t, p, named("two", readSecret)) {
				t.Error("an earlier answer of core is still in force")
			}
		})
	}
}

func TestCoreIsAskedWithAllThatIsKnown(t *testing.T) {
	core := newFakeCore(t)
	core.start()
	p := run(t, withModes("Node"), core)
	isRed, err := labels.ParseToRequirements("color=red")
	require.NoError(t, err)
	allowed(t, p, authorizer.AttributesRecord{
		User: &user.DefaultInfo{
			Name: node.Name, UID: "1", Groups: node.Groups, Extra: map[string][]string{"a": {"b", "c"}},
		},
		Verb: "list", APIGroup: "", APIVersion: "*", Resource: "pods", Namespace: "default", Name: "one", ResourceRequest: true,
		FieldSelectorRequirements: fields.OneTermEqualSelector("spec.nodeName", "two").Requirements(),
		LabelSelectorRequirements: isRed,
	})
	want := []authorizationv1.SubjectAccessReviewSpec{{
		User: node.Name, UID: "1", Groups: node.Groups, Extra: map[string]authorizationv1.ExtraValue{"a": {"b", "c"}},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "list", Group: "", Version: "*", Resource: "pods", Namespace: "default", Name: "one",
			FieldSelector: &authorizationv1.FieldSelectorAttributes{Requirements: []metav1.FieldSelectorRequirement{
				{Key: "spec.nodeName", Operator: metav1.FieldSelectorOpIn, Values: []string{"two"}},
			}},
			LabelSelector: &authorizationv1.LabelSelectorAttributes{Requirements: []metav1.LabelSelectorRequirement{
				{Key: "color", Operator: metav1.LabelSelectorOpIn, Values: []string{"red"}},
			}},
		},
	}}
	if got := core.reviewed(); !reflect.DeepEqual(got, want) {
		t.Errorf("core is asked %v, want %v", got, want)
	}
}

func TestCoreIsNotAskedWhatIsKnownWithoutIt(t *testing.T) {
	const secrets = "secrets"
	ungrouped := &user.DefaultInfo{Name: node.Name}
	privileged := &user.DefaultInfo{Name: node.Name, Groups: []string{user.NodesGroup, user.SystemPrivilegedGroup}}
	for _, tc := range []struct {
		name    string
		modes   []string
		request authorizer.Attributes
		want    bool
	}{
		{"a custom resource", []string{"Node"}, readWidget(node), false},
		{"an APIService", []string{"Node"}, to(node, "create", "apiregistration.k8s.io", "apiservices"), false},
		{"what the fixed rules allow", []string{"Node"}, to(node, "list", "", "services"), true},
		{"what the graph does not decide", []string{"Node"}, to(node, "delete", "", secrets), false},
		{"whether a node may be someone else", []string{"Node"}, to(node, "impersonate", "", "serviceaccounts"), false},
		{"a user who is no node", []string{"Node"}, to(jane, "get", "", secrets), false},
		{"a user who is not among the nodes", []string{"Node"}, to(ungrouped, "get", "", secrets), false},
		{"one who may do everything", []string{"Node"}, to(privileged, "get", "", secrets), true},
		{"what another mode allows", []string{"Node", "AlwaysAllow"}, to(node, "get", "", secrets), true},
		{"without mode Node", []string{"RBAC"}, to(node, "get", "", secrets), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			core := newFakeCore(t)
			core.allow("one")
			core.start()
			p := run(t, withModes(tc.modes...), core)
			eventually(t, "policy is synced", p.Synced)
			assert.Equal(t, tc.want, allowed(t, p, tc.request), "allowed")
			assert.Empty(t, core.reviewed(), "core is asked")
		})
	}
}

func TestWhileCoreIsAwayNodesAreNotAllowedWhatTheirPodsNeed(t *testing.T) {
	p := run(t, withModes("Node"), newFakeCore(t))
	decision, _, err := p.Authorize(t.Context(), to(node, "get", "", "secrets"))
	if decision != authorizer.DecisionNoOpinion || err == nil {
		t.Errorf("got %v, %v; want no opinion and an error", decision, err)
	}
}

func TestASilentCoreIsNotWaitedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core := &rest.Config{Host: "http://core", QPS: -1, Transport: roundtrip.Func(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		})}
		p, err := New(t.Context(), withModes("Node"), core, "test", nil)
		require.NoError(t, err)
		began := time.Now()
		decision, _, err := p.Authorize(t.Context(), to(node, "get", "", "secrets"))
		if decision != authorizer.DecisionNoOpinion || err == nil {
			t.Errorf("got %v, %v; want no opinion and an error", decision, err)
		}
		assert.Equal(t, reviewTimeout, time.Since(began), "took")
	})
}

// The reason that mode Node gives shows what it has looked for in its graph.
func TestWhatIsAskedOfCoreIsWhatModeNodeDecidesByItsGraph(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.PodCertificateRequest, true)
	local := run(t, withModes("Node"), newFakeCore(t)).authorizer.(*nodes).Authorizer
	asked := 0
	for _, resource := range builtinResources() {
		for _, subresource := range []string{"", "status", "token", "scale", "eviction", "ephemeralcontainers", "log", "finalizers", "approval"} {
			for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "impersonate", "bind", "*"} {
				request := authorizer.AttributesRecord{
					User: node, Verb: verb, APIGroup: resource.Group, APIVersion: "*", Resource: resource.Resource, Subresource: subresource,
					Namespace: "default", Name: "one", ResourceRequest: true,
				}
				_, reason, err := local.Authorize(t.Context(), request)
				require.NoError(t, err)
				byItsGraph := strings.Contains(reason, "no relationship found between node")
				if is := rbac.RulesAllow(request, byGraph...); is != byItsGraph {
					t.Errorf("%s %v %q: asked of core: %v, decided by the graph: %v", verb, resource, subresource, is, byItsGraph)
				}
				if byItsGraph {
					asked++
				}
			}
		}
	}
	if asked == 0 {
		t.Error("mode Node gives other reasons")
	}
}

// builtinResources returns what the kinds that Kubernetes knows would be called as resources, and may be more than there is.
func builtinResources() []schema.GroupResource {
	resources := map[schema.GroupResource]bool{}
	for kind := range scheme.Scheme.AllKnownTypes() {
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		resources[plural.GroupResource()] = true
	}
	return slices.Collect(maps.Keys(resources))
}
