// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"errors"
	"os"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/kubernetes/pkg/features"

	"github.com/tripod-k8s/tripod/base/service/atomicfile"
)

var (
	jane   = &user.DefaultInfo{Name: "jane", Groups: []string{user.AllAuthenticated}}
	master = &user.DefaultInfo{Name: "root", Groups: []string{user.SystemPrivilegedGroup}}
	node   = &user.DefaultInfo{Name: "system:node:one", Groups: []string{user.NodesGroup, user.AllAuthenticated}}
)

func to(who user.Info, verb, group, resource string) authorizer.Attributes {
	return authorizer.AttributesRecord{
		User: who, Verb: verb, APIGroup: group, APIVersion: "v1", Resource: resource, Namespace: "default", Name: "one", ResourceRequest: true,
	}
}

func readWidget(who user.Info) authorizer.Attributes {
	return to(who, "get", "example.com", "widgets")
}

// run runs the policy of options until the test ends.
func run(t *testing.T, o *Options, core *fakeCore) *Policy {
	t.Helper()
	o.Complete()
	require.Empty(t, o.Validate())
	p, err := New(t.Context(), o, core.config(), "test", nil)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { p.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return p
}

func withModes(names ...string) *Options {
	o := NewOptions()
	o.Modes = names
	return o
}

func allowed(t *testing.T, p *Policy, request authorizer.Attributes) bool {
	t.Helper()
	decision, _, err := p.Authorize(t.Context(), request)
	require.NoError(t, err)
	return decision == authorizer.DecisionAllow
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 30*time.Second, true,
		func(context.Context) (bool, error) { return condition(), nil })
	require.NoError(t, err, what)
}

func TestPolicyFollowsCore(t *testing.T) {
	core := newFakeCore(t)
	core.emit("ADDED", "clusterroles", widgetReader())
	core.start()
	p := run(t, withModes("Node", "RBAC"), core)
	eventually(t, "policy is synced", p.Synced)
	assert.NoError(t, p.Check(nil))
	if allowed(t, p, readWidget(jane)) {
		t.Error("allowed without a binding")
	}
	core.emit("ADDED", "rolebindings", bindingOf("jane"))
	eventually(t, "allowed with a binding", func() bool { return allowed(t, p, readWidget(jane)) })
	core.emit("DELETED", "rolebindings", bindingOf("jane"))
	eventually(t, "denied without the binding", func() bool { return !allowed(t, p, readWidget(jane)) })
}

func TestPolicyStaysInForceWhileCoreIsAway(t *testing.T) {
	core := newFakeCore(t)
	core.emit("ADDED", "clusterroles", widgetReader())
	core.emit("ADDED", "rolebindings", bindingOf("jane"))
	core.start()
	p := run(t, withModes("RBAC"), core)
	eventually(t, "policy is synced", p.Synced)

	core.die()
	if !allowed(t, p, readWidget(jane)) {
		t.Error("not allowed any more")
	}
	other := &user.DefaultInfo{Name: "joe"}
	if allowed(t, p, readWidget(other)) {
		t.Error("a forbidden request is allowed")
	}
	core.emit("DELETED", "rolebindings", bindingOf("jane"))
	core.emit("ADDED", "rolebindings", bindingOf("joe"))
	if !allowed(t, p, readWidget(jane)) || allowed(t, p, readWidget(other)) || !p.Synced() {
		t.Error("changed by a core that is away")
	}

	core.start()
	eventually(t, "what changed meanwhile is in force", func() bool {
		return !allowed(t, p, readWidget(jane)) && allowed(t, p, readWidget(other))
	})
}

func TestNothingIsDeniedBeforePolicyIsSynced(t *testing.T) {
	core := newFakeCore(t)
	p := run(t, withModes("Node", "RBAC"), core)
	decision, _, err := p.Authorize(t.Context(), readWidget(jane))
	if decision != authorizer.DecisionNoOpinion || err == nil {
		t.Errorf("got %v, %v; want no decision and an error", decision, err)
	}
	if _, _, incomplete, err := p.RulesFor(t.Context(), jane, "default"); !incomplete || err == nil {
		t.Errorf("rules are reported to be complete: %v, %v", incomplete, err)
	}
	if !allowed(t, p, readWidget(master)) {
		t.Error("system:masters is not allowed everything")
	}
	if p.Check(nil) == nil {
		t.Error("ready")
	}
	probes := p.UntilSynced(authorizerfactory.NewAlwaysAllowAuthorizer())
	if decision, _, _ := probes.Authorize(t.Context(), readWidget(jane)); decision != authorizer.DecisionAllow {
		t.Errorf("until policy is synced, got %v", decision)
	}

	core.start()
	eventually(t, "policy is synced", p.Synced)
	if allowed(t, p, readWidget(jane)) {
		t.Error("allowed without a binding")
	}
	if decision, _, _ := probes.Authorize(t.Context(), readWidget(jane)); decision != authorizer.DecisionNoOpinion {
		t.Errorf("after policy is synced, got %v", decision)
	}
}

func TestOnlyObjectsThatAreNeededAreWatched(t *testing.T) {
	const rbac = "/apis/rbac.authorization.k8s.io/v1/"
	for _, tc := range []struct {
		name  string
		modes []string
		want  []string
	}{
		{"with RBAC", []string{"Node", "RBAC"}, []string{rbac + "clusterrolebindings", rbac + "clusterroles", rbac + "rolebindings", rbac + "roles"}},
		{"without", []string{"Node", "AlwaysDeny"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			core := newFakeCore(t)
			core.start()
			p := run(t, withModes(tc.modes...), core)
			eventually(t, "policy is synced", p.Synced)
			assert.Equal(t, tc.want, core.askedFor(), "asked for")
		})
	}
}

func TestModes(t *testing.T) {
	abac := writeFile(t, `{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"jane","namespace":"*","resource":"*","apiGroup":"*"}}`)
	for _, tc := range []struct {
		name    string
		options *Options
		request authorizer.Attributes
		want    bool
	}{
		{"by default everything is allowed", withModes(), readWidget(jane), true},
		{"AlwaysDeny", withModes("AlwaysDeny"), readWidget(jane), false},
		{"AlwaysDeny, but not system:masters", withModes("AlwaysDeny"), readWidget(master), true},
		{"Node has no opinion on others", withModes("Node"), readWidget(jane), false},
		{"Node allows nodes no custom resource", withModes("Node"), readWidget(node), false},
		{"Node allows nodes what its rules say", withModes("Node"), to(node, "list", "", "services"), true},
		{"the first opinion counts", withModes("Node", "AlwaysAllow", "AlwaysDeny"), readWidget(jane), true},
		{"ABAC", &Options{Modes: []string{"ABAC"}, PolicyFile: abac}, readWidget(jane), true},
		{"ABAC, someone else", &Options{Modes: []string{"ABAC"}, PolicyFile: abac}, readWidget(node), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := run(t, tc.options, newFakeCore(t))
			if !p.Synced() {
				t.Fatal("waits for core")
			}
			assert.Equal(t, tc.want, allowed(t, p, tc.request), "allowed")
		})
	}
}

func TestModeNodeNeedsNothingOfCoreWithAllItsGates(t *testing.T) {
	// The other gate that makes it ask for informers, DynamicResourceAllocation, is always on.
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.PodCertificateRequest, true)
	if !run(t, withModes("Node"), newFakeCore(t)).Synced() {
		t.Error("waits for core")
	}
}

func TestObjectsAreKeptWithWhatDecides(t *testing.T) {
	core := newFakeCore(t)
	binding := bindingOf("jane")
	binding.Labels = map[string]string{"a": "b"}
	binding.Annotations = map[string]string{"a": "b"}
	binding.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "test"}}
	core.emit("ADDED", "rolebindings", binding)
	core.start()
	factory, err := newFactory(core.config())
	require.NoError(t, err)
	lister := factory.Rbac().V1().RoleBindings().Lister()
	go factory.run(t.Context())
	eventually(t, "objects are received", factory.synced)
	got, err := lister.RoleBindings("default").Get("jane")
	require.NoError(t, err)
	want := bindingOf("jane")
	want.ResourceVersion = "1"
	want.TypeMeta = got.TypeMeta
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	eventually(t, "the metric says how far policy has come", func() bool {
		reached, err := testutil.GetGaugeMetricValue(reached.WithLabelValues("rolebindings"))
		require.NoError(t, err)
		return reached == 1
	})
}

func TestAFileIsFollowed(t *testing.T) {
	const node, always = "- {type: Node, name: node}\n", "- {type: AlwaysAllow, name: alwaysallow}\n"
	file := writeFile(t, configuration+node+"- {type: AlwaysDeny, name: alwaysdeny}\n")
	change := func(content string) {
		t.Helper()
		require.NoError(t, atomicfile.Write(file, []byte(configuration+content)))
	}
	p := run(t, &Options{ConfigFile: file}, newFakeCore(t))
	if allowed(t, p, readWidget(jane)) {
		t.Error("allowed by AlwaysDeny")
	}
	failures := reloads(t, "failure")
	change(always)
	eventually(t, "a file without a mode that there was is refused, as by kube-apiserver", func() bool {
		return reloads(t, "failure") > failures
	})
	if allowed(t, p, readWidget(jane)) {
		t.Error("allowed by a file that was refused")
	}
	change(node + always + "- {type: AlwaysDeny, name: alwaysdeny}\n")
	eventually(t, "a changed file with mode Node is in force", func() bool { return allowed(t, p, readWidget(jane)) })
}

// reloads returns how often a file was read again.
func reloads(t *testing.T, status string) float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() != "apiserver_authorization_config_controller_automatic_reloads_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "status" && label.GetValue() == status {
					return metric.GetCounter().GetValue()
				}
			}
		}
	}
	return 0
}

func TestWhatCannotBeReadIsAnError(t *testing.T) {
	missing := t.TempDir() + "/missing"
	for _, o := range []*Options{
		{Modes: []string{"ABAC"}, PolicyFile: missing},
		{Modes: []string{"Webhook"}, WebhookConfigFile: missing},
		{ConfigFile: missing},
	} {
		if _, err := New(t.Context(), o, newFakeCore(t).config(), "test", nil); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	}
}
