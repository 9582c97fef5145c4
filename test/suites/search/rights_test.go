// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework"
)

var policies = flag.Int("policies", 100, "how many random policies TestSearchShowsWhatTheMemberAllows compares")

// shared are objects of both namespaces of teams.
const shared = `
apiVersion: v1
kind: Namespace
metadata: {name: team-a}
---
apiVersion: v1
kind: Namespace
metadata: {name: team-b}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: web, namespace: team-a}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: db, namespace: team-a}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: web, namespace: team-b}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: team-a}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: team-b}
spec: {ports: [{port: 80}]}
`

// deployment is for members only: other tests list the Deployments of the hub.
const deployment = `
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: team-b}
spec:
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: i}]}}
`

const readsConfigMaps = `
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reads-config-maps}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [list]}]
`

var startTeams = sync.OnceValues(func() (*framework.Stock, error) {
	stock, err := environment.StartStock(context.Background(), framework.StockOptions{})
	if err != nil {
		return nil, err
	}
	return stock, stock.Create(context.Background(), shared+deployment+readsConfigMaps)
})

// teams returns a kube-apiserver that tests share, each of which adds RBAC objects of users of its own.
func teams(t *testing.T) *framework.Stock {
	t.Helper()
	stock, err := startTeams()
	require.NoError(t, err)
	return stock
}

// trust adds a cluster whose own RBAC counts.
func trust(t *testing.T, name string, config []byte) {
	t.Helper()
	addCluster(t, name, config, map[string]any{"group": "", "resources": []any{"configmaps", "services", "namespaces"}}, map[string]any{"group": "apps", "resources": []any{"deployments"}})
	patchCluster(t, name, `{"spec": {"memberRBAC": {}}}`)
}

// as returns a configuration of the administrator who impersonates a user.
func as(name string, groups ...string) *rest.Config {
	config := fleet.Admin()
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: groups}
	return config
}

// sees returns what a user finds. Nothing is found where all is forbidden.
func sees(ctx context.Context, config *rest.Config, path string) ([]string, error) {
	names, err := get(ctx, config, path)
	if apierrors.IsForbidden(err) {
		return nil, nil
	}
	slices.Sort(names)
	return names, err
}

// awaitSeen returns when a user finds what is expected, and how long that took.
func awaitSeen(t *testing.T, config *rest.Config, path string, want ...string) time.Duration {
	t.Helper()
	began := time.Now()
	framework.Eventually(t, config.Impersonate.UserName+" "+path, func(ctx context.Context) error {
		got, err := sees(ctx, config, path)
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("got %q, want %q", got, want)
		}
		return err
	})
	return time.Since(began)
}

// TestReadersSeeTheirNamespacesOfTheHub holds that the RBAC of the hub counts for its own objects, with real kubectl.
func TestReadersSeeTheirNamespacesOfTheHub(t *testing.T) {
	require.NoError(t, fleet.Create(t.Context(), shared+`
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: team-a}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, list]}, {apiGroups: [""], resources: [services], resourceNames: [web], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: team-a}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: robot, namespace: team-b}, {apiGroup: rbac.authorization.k8s.io, kind: User, name: tom}]
`))
	kubectl := func(server string, args ...string) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			command := exec.CommandContext(ctx, environment.Binary("tripod"), append([]string{"kubectl", "--kubeconfig", fleet.Kubeconfig, "--server", fleet.URL + server, "--cache-dir", t.TempDir()}, args...)...)
			text, err := command.CombinedOutput()
			return string(text), err
		}
	}
	const robot = "system:serviceaccount:team-b:robot"
	for _, test := range []struct {
		name     string
		ask      func(context.Context) (string, error)
		contains []string
		lacks    string
		fails    bool
	}{
		{"a user", kubectl(resources, "--as", "tom", "get", "configmaps", "-A", "-o", "name"), []string{"configmap/db", "configmap/web"}, "extension-apiserver", false},
		{"a service account", kubectl(hub, "--as", robot, "get", "configmaps", "-n", "team-a", "-o", "name"), []string{"configmap/db", "configmap/web"}, "", false},
		{"one object", kubectl(hub, "--as", "tom", "get", "configmap", "web", "-n", "team-a", "-o", "name"), []string{"configmap/web"}, "", false},
		{"one object of another namespace", kubectl(hub, "--as", "tom", "get", "configmap", "web", "-n", "team-b"), []string{"Forbidden", "needs a role"}, "", true},
		{"one object that does not exist", kubectl(hub, "--as", "tom", "get", "configmap", "none", "-n", "team-b"), []string{"Forbidden"}, "", true},
		{"one object that does not exist there", kubectl(hub, "--as", "tom", "get", "configmap", "none", "-n", "team-a"), []string{"NotFound"}, "", true},
		{"a name", kubectl(resources, "--as", "tom", "get", "services", "-A", "-o", "custom-columns=N:.metadata.namespace,M:.metadata.name", "--no-headers"), []string{"team-a   web"}, "team-b", false},
		{"another kind", kubectl(resources, "--as", "tom", "get", "deployments", "-A"), []string{"Forbidden"}, "", true},
		{"all kinds", kubectl("", "--as", "tom", "get", "collectionresource", "any", "--raw", "/apis/clusterpedia.io/v1beta1/collectionresources/any?groups=*"), nil, "team-b", false},
		{"somebody else", kubectl(resources, "--as", "eve", "get", "configmaps", "-A"), []string{"doesn't have a resource type"}, "", true},
	} {
		framework.Eventually(t, test.name, func(ctx context.Context) error {
			if test.name == "all kinds" {
				got, err := sees(ctx, as("tom"), "/apis/clusterpedia.io/v1beta1/collectionresources/any?groups=*")
				if err == nil && !slices.Equal(got, []string{"team-a/db", "team-a/web", "team-a/web"}) {
					err = fmt.Errorf("got %q", got)
				}
				return err
			}
			text, err := test.ask(ctx)
			if (err != nil) != test.fails {
				return fmt.Errorf("%w: %s", err, text)
			}
			for _, want := range test.contains {
				if !strings.Contains(text, want) {
					return fmt.Errorf("it lacks %q: %s", want, text)
				}
			}
			if test.lacks != "" && strings.Contains(text, test.lacks) {
				return fmt.Errorf("it has %q: %s", test.lacks, text)
			}
			return nil
		})
	}
}

// TestARevokedBindingIsOutOfForceInSearch also logs how long that takes.
func TestARevokedBindingIsOutOfForceInSearch(t *testing.T) {
	t.Parallel()
	stock := teams(t)
	const path = resources + "/clusters/revoking/api/v1/configmaps"
	client, err := kubernetes.NewForConfig(stock.Admin())
	require.NoError(t, err)
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "rita", Namespace: "team-a"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "reads-config-maps"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "rita"}, {APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "corp:rita"}},
	}
	bind := func() {
		_, err := client.RbacV1().RoleBindings("team-a").Create(t.Context(), binding, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	bind()
	addCluster(t, "revoking", kubeconfig(t, stock.Admin()), map[string]any{"group": "", "resources": []any{"configmaps"}})
	awaitList(t, path+"?namespaces=team-a", "team-a/db", "team-a/web")
	rita := as("rita")
	seen, err := sees(t.Context(), rita, path)
	require.NoError(t, err)
	assert.Empty(t, seen, "the PediaCluster does not trust the RBAC of the cluster")
	patchCluster(t, "revoking", `{"spec": {"memberRBAC": {}}}`)
	awaitSeen(t, rita, path, "team-a/db", "team-a/web")
	for range 5 {
		require.NoError(t, client.RbacV1().RoleBindings("team-a").Delete(t.Context(), "rita", metav1.DeleteOptions{}))
		t.Logf("a revoked binding is out of force after %s", awaitSeen(t, rita, path))
		bind()
		t.Logf("a new binding is in force after %s", awaitSeen(t, rita, path, "team-a/db", "team-a/web"))
	}
	patchCluster(t, "revoking", `{"spec": {"memberRBAC": {"username": "user.username.startsWith('corp:') ? user.username : 'other:' + user.username"}}}`)
	awaitSeen(t, rita, path)
	awaitSeen(t, as("corp:rita"), path, "team-a/db", "team-a/web")
	patchCluster(t, "revoking", `{"spec": {"memberRBAC": {"username": "user.groups"}}}`)
	awaitCondition(t, "revoking", "Validated", metav1.ConditionFalse, "memberRBAC.username: it must be of the type string")
	awaitSeen(t, as("corp:rita"), path)
	patchCluster(t, "revoking", `{"spec": {"memberRBAC": null}}`)
	awaitSeen(t, as("corp:rita"), path)
}

func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// randomPolicy returns the RBAC objects of a user, as a manifest.
func randomPolicy(r *rand.Rand, i int) (reader *rest.Config, manifest string) {
	name, group := fmt.Sprint("reader-", i), fmt.Sprint("readers-", i)
	rules := func() string {
		var all []string
		for range 1 + r.IntN(2) {
			rule := fmt.Sprintf(`{verbs: [%q], apiGroups: [%q], resources: [%q]`, pick(r, "list", "list", "get", "*", "watch"), pick(r, "", "apps", "*"),
				pick(r, "configmaps", "services", "namespaces", "deployments", "configmaps/status", "*"))
			if r.IntN(2) == 0 {
				rule += fmt.Sprintf(", resourceNames: [%q]", pick(r, "web", "db", "team-a", "default"))
			}
			all = append(all, rule+"}")
		}
		return strings.Join(all, ", ")
	}
	manifest = fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: %s}
rules: [%s]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: %s, namespace: team-a}
rules: [%s]
`, name, rules(), name, rules())
	for _, namespace := range []string{"team-a", "team-b", "default", ""} {
		if namespace == "" && r.IntN(4) > 0 || r.IntN(2) == 0 {
			continue
		}
		kind, role, in := "RoleBinding", pick(r, "Role", "ClusterRole"), ", namespace: "+namespace
		if namespace == "" {
			kind, role, in = "ClusterRoleBinding", "ClusterRole", ""
		}
		subject := pick(r, "{apiGroup: rbac.authorization.k8s.io, kind: User, name: "+name+"}", "{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "+group+"}",
			"{apiGroup: rbac.authorization.k8s.io, kind: User, name: somebody}")
		manifest += fmt.Sprintf(`---
apiVersion: rbac.authorization.k8s.io/v1
kind: %s
metadata: {name: %s%s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: %s, name: %s}
subjects: [%s]
`, kind, name, in, role, name, subject)
	}
	return as(name, group), manifest
}

// TestSearchShowsWhatTheMemberAllows compares lists with the SubjectAccessReviews of a kube-apiserver, for users with random roles and bindings.
func TestSearchShowsWhatTheMemberAllows(t *testing.T) {
	t.Parallel()
	stock := teams(t)
	trust(t, "reviewed", kubeconfig(t, stock.Admin()))
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	readers := make([]*rest.Config, *policies)
	for i := range readers {
		var manifest string
		readers[i], manifest = randomPolicy(r, i)
		require.NoError(t, stock.Create(t.Context(), manifest))
	}
	// Of each kind of RBAC objects, these are the last.
	require.NoError(t, stock.Create(t.Context(), `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: last}
rules: [{verbs: [list], apiGroups: [""], resources: [namespaces], resourceNames: [team-a]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: last, namespace: team-b}
rules: [{verbs: [list], apiGroups: [""], resources: [namespaces]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: last}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: last}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: last}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: last, namespace: team-b}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: last}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: last}]
`))
	const below = resources + "/clusters/reviewed"
	awaitSeen(t, as("last"), below+"/api/v1/namespaces", "team-a", "team-b")

	client, err := kubernetes.NewForConfig(stock.Admin())
	require.NoError(t, err)
	found := 0
	for resource, path := range map[schema.GroupResource]string{
		{Resource: "configmaps"}: "/api/v1/configmaps", {Resource: "services"}: "/api/v1/services", {Resource: "namespaces"}: "/api/v1/namespaces",
		{Group: "apps", Resource: "deployments"}: "/apis/apps/v1/deployments",
	} {
		all, err := get(t.Context(), stock.Admin(), path)
		require.NoError(t, err)
		awaitList(t, below+path, all...)
		for _, reader := range readers {
			var want []string
			for _, object := range all {
				namespace, name, namespaced := strings.Cut(object, "/")
				if !namespaced {
					name = namespace // a Namespace is in itself
				}
				review, err := client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
					User: reader.Impersonate.UserName, Groups: append(slices.Clone(reader.Impersonate.Groups), "system:authenticated"),
					ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Group: resource.Group, Resource: resource.Resource, Namespace: namespace, Name: name},
				}}, metav1.CreateOptions{})
				require.NoError(t, err)
				if review.Status.Allowed {
					want = append(want, object)
				}
			}
			slices.Sort(want)
			got, err := sees(t.Context(), reader, below+path)
			require.NoError(t, err)
			require.Equal(t, want, got, "seed %d, %s of %s", seed, resource, reader.Impersonate.UserName)
			found += len(got)
		}
	}
	assert.Greater(t, found, *policies/10, "few policies show anything: seed %d", seed)
}
