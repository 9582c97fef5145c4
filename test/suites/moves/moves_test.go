// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package moves

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/admin/crd"
	"github.com/tripod-k8s/tripod/base/migration"
	"github.com/tripod-k8s/tripod/test/framework"
)

func TestMain(m *testing.M) {
	framework.Main(m, func(context.Context, *framework.Environment) error { return nil })
}

const (
	group  = "wardle.example.com"
	oneNow = "one-move"
)

var (
	flunders = schema.GroupVersionResource{Group: group, Version: "v1beta1", Resource: "flunders"}
	crds     = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	apis     = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
)

// custom is a kind that a CustomResourceDefinition and an API service have.
type custom struct {
	schema.GroupVersionResource
	kind string
	// spec is one that both accept. text is a field of it that has any text.
	spec map[string]any
	text string
}

// flunder is what wardle serves.
var flunder = custom{flunders, "Flunder", map[string]any{"referenceType": "Flunder", "flunderReference": "other"}, "flunderReference"}

// definition returns the CustomResourceDefinition.
func (c custom) definition() string {
	return fmt.Sprintf(`{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": %q},
"spec": {"group": %q, "names": {"kind": %q, "plural": %q, "singular": %q}, "scope": "Namespaced",
"versions": [{"name": %q, "served": true, "storage": true,
"schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}`,
		c.GroupResource(), c.Group, c.kind, c.Resource, strings.ToLower(c.kind), c.Version)
}

// named returns an object.
func (c custom) named(name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": runtime.DeepCopyJSON(c.spec)}}
	object.SetGroupVersionKind(c.GroupVersion().WithKind(c.kind))
	object.SetName(name)
	return object
}

// mover sends requests by which objects move.
type mover struct {
	t      *testing.T
	client rest.Interface
}

func newMover(t *testing.T, config *rest.Config) mover {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(config)
	require.NoError(t, err)
	return mover{t, client.RESTClient()}
}

func (m mover) do(verb, resource string, body, answer any, parameters ...string) error {
	request := m.client.Verb(verb).AbsPath(migration.PathOf(group, resource)).Param("service", "wardle").MaxRetries(0)
	for i := 0; i < len(parameters); i += 2 {
		request.Param(parameters[i], parameters[i+1])
	}
	if body != nil {
		data, err := json.Marshal(body)
		require.NoError(m.t, err)
		request.SetHeader("Content-Type", "application/json").Body(data)
	}
	result := request.Do(m.t.Context())
	err := result.Error()
	if err == nil && answer != nil {
		data, err := result.Raw()
		require.NoError(m.t, err)
		require.NoError(m.t, json.Unmarshal(data, answer), string(data))
	}
	return err
}

// all returns what the service has, by name.
func (m mover) all() map[string]map[string]any {
	objects, next := map[string]map[string]any{}, ""
	for {
		var page migration.Page
		require.NoError(m.t, m.do("GET", "flunders", nil, &page, migration.Version, "v1beta1", migration.Limit, "70", migration.Continue, next))
		for _, data := range page.Objects {
			object := &unstructured.Unstructured{}
			require.NoError(m.t, object.UnmarshalJSON(data))
			objects[object.GetName()] = object.Object
		}
		if next = page.Continue; next == "" {
			return objects
		}
	}
}

// send sends objects in batches, and returns how many the service has taken over.
func (m mover) send(objects map[string]map[string]any) int {
	taken := 0
	for names := range slices.Chunk(slices.Sorted(maps.Keys(objects)), 100) {
		batch := migration.Batch{Move: oneNow}
		for _, name := range names {
			data, err := json.Marshal(objects[name])
			require.NoError(m.t, err)
			batch.Objects = append(batch.Objects, data)
		}
		var answer migration.Taken
		require.NoError(m.t, m.do("POST", "flunders", batch, &answer))
		taken += answer.Objects
	}
	return taken
}

func clientOf(t *testing.T, config *rest.Config) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	return client
}

// define creates the definition with many objects: with finalizers, in deletion, of several managers.
func define(t *testing.T, cluster *framework.Cluster, c custom) {
	t.Helper()
	const many = 250
	client, crd := clientOf(t, cluster.Admin()), &unstructured.Unstructured{}
	require.NoError(t, crd.UnmarshalJSON([]byte(c.definition())))
	_, err := client.Resource(crds).Create(t.Context(), crd, metav1.CreateOptions{})
	require.NoError(t, err)
	mine := client.Resource(c.GroupVersionResource).Namespace("default")
	framework.Eventually(t, c.Resource+" are served", func(ctx context.Context) error {
		_, err := mine.List(ctx, metav1.ListOptions{})
		return err
	})
	for i := range many {
		object := c.named(fmt.Sprintf("f-%03d", i))
		object.SetFinalizers([]string{"example.com/hold"})
		_, err := mine.Apply(t.Context(), object.GetName(), object, metav1.ApplyOptions{FieldManager: "one"})
		require.NoError(t, err)
		if i%3 == 0 {
			_, err := mine.Patch(t.Context(), object.GetName(), types.MergePatchType, []byte(`{"spec": {"`+c.text+`": "changed"}}`),
				metav1.PatchOptions{FieldManager: "two"})
			require.NoError(t, err)
		}
		if i%5 == 0 {
			require.NoError(t, mine.Delete(t.Context(), object.GetName(), metav1.DeleteOptions{}))
		}
	}
}

// listed returns what extensions has, by name.
func listed(t *testing.T, client dynamic.Interface, c custom) map[string]map[string]any {
	t.Helper()
	list, err := client.Resource(c.GroupVersionResource).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	objects := map[string]map[string]any{}
	for _, item := range list.Items {
		objects[item.GetName()] = item.Object
	}
	return objects
}

// Extensions has the group first, and keeps it when the service comes.
func TestAServiceTakesOverObjectsOfAnotherOwner(t *testing.T) {
	env := framework.ForTest(t)
	tripod, err := env.StartTripod(t.Context(), framework.TripodOptions{})
	require.NoError(t, err)
	define(t, tripod.Cluster, flunder)
	require.NoError(t, tripod.Stop())
	tripod, err = env.StartTripod(t.Context(), framework.TripodOptions{
		DataDir: tripod.DataDir, Args: []string{"--service=wardle=" + env.Binary("wardle")},
	})
	require.NoError(t, err)
	require.NoError(t, tripod.Scale(t.Context(), "wardle", 2))
	as := allow(t, tripod.Cluster)
	client := clientOf(t, tripod.Admin())
	before := listed(t, client, flunder)
	require.Len(t, before, 250)

	testCheck(t, env, tripod)

	var served migration.Group
	require.NoError(t, as.do("GET", "", nil, &served))
	assert.Equal(t, []migration.Resource{
		{Name: "fischers", Kind: "Fischer", Versions: []string{"v1alpha1"}},
		{Name: "flunders", Kind: "Flunder", Namespaced: true, Versions: []string{"v1beta1", "v1alpha1"}},
	}, served.Resources)
	require.NoError(t, as.do("PUT", "flunders", migration.Gate{To: oneNow}, nil))
	for range 2 { // the second time nothing changes
		assert.Equal(t, len(before), as.send(before))
	}
	after := as.all()
	require.Len(t, after, len(before))
	for name, object := range before {
		require.Nil(t, migration.FirstDifference(object, after[name]), name)
	}
	assert.Equal(t, before, listed(t, client, flunder), "extensions has the same objects as before")
	owner, err := client.Resource(apis).Get(t.Context(), "v1beta1."+group, metav1.GetOptions{})
	require.NoError(t, err)
	serves, _, err := unstructured.NestedString(owner.Object, "spec", "service", "name")
	require.NoError(t, err)
	assert.Equal(t, "extensions", serves, "the group has its owner")

	gone := migration.Batch{Move: oneNow}
	for _, name := range []string{"f-000", "f-001"} {
		uid, _, err := unstructured.NestedString(before[name], "metadata", "uid")
		require.NoError(t, err)
		gone.Gone = append(gone.Gone, migration.Gone{Namespace: "default", Name: name, UID: types.UID(uid)})
	}
	require.NoError(t, as.do("POST", "flunders", gone, nil))
	assert.Len(t, as.all(), len(before)-2)
	// A replica that starts later has the gate, too.
	require.NoError(t, tripod.Kill(t.Context(), "wardle-0"))
	framework.Eventually(t, "the replica is back", func(ctx context.Context) error {
		status, err := tripod.Component(ctx, "wardle-0")
		if err == nil && !status.Ready {
			err = fmt.Errorf("%s", status.Message)
		}
		return err
	})
	require.NoError(t, as.do("GET", "", nil, &served))
	assert.Equal(t, oneNow, served.Resources[1].Move)
}

// allow returns what a user sends who may move objects of the group, and nothing else.
func allow(t *testing.T, cluster *framework.Cluster) mover {
	t.Helper()
	kube, err := kubernetes.NewForConfig(cluster.Admin())
	require.NoError(t, err)
	bind := func(user string, rule rbacv1.PolicyRule) {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: []rbacv1.PolicyRule{rule}}
		_, err := kube.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{})
		require.NoError(t, err)
		_, err = kube.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	bind("mover", rbacv1.PolicyRule{NonResourceURLs: []string{migration.PathOf(group, ""), migration.PathOf(group, "*")}, Verbs: []string{"get", "put", "post"}})
	bind("stranger", rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})
	movers := map[string]mover{}
	for _, user := range []string{"mover", "stranger"} {
		config, err := cluster.UserConfig(user)
		require.NoError(t, err)
		movers[user] = newMover(t, config)
	}
	framework.Eventually(t, "the right is in force", func(context.Context) error { return movers["mover"].do("GET", "", nil, nil) })
	for _, verb := range []string{"GET", "PUT", "POST"} {
		err := movers["stranger"].do(verb, "flunders", nil, nil)
		assert.True(t, apierrors.IsForbidden(err), "%s by a user with a right for all resources: %v", verb, err)
	}
	return movers["mover"]
}

func TestAMoveClosesAServiceForClients(t *testing.T) {
	env := framework.ForTest(t)
	tripod, err := env.StartTripod(t.Context(), framework.TripodOptions{Args: []string{"--service=wardle=" + env.Binary("wardle")}})
	require.NoError(t, err)
	require.NoError(t, tripod.Scale(t.Context(), "wardle", 2))
	as, mine := allow(t, tripod.Cluster), clientOf(t, tripod.Admin()).Resource(flunders).Namespace("default")
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	object.SetGroupVersionKind(flunders.GroupVersion().WithKind("Flunder"))
	object.SetName("a")
	framework.Eventually(t, "the service serves the group", func(ctx context.Context) error {
		_, err := mine.List(ctx, metav1.ListOptions{})
		return err
	})
	a, err := mine.Create(t.Context(), object, metav1.CreateOptions{})
	require.NoError(t, err)
	moved := a.DeepCopy()
	moved.SetName("moved")
	moved.SetUID("5e1ab9ae-1cc2-4d5c-a88a-c1ee9c1d5b3f")
	moved.SetGeneration(7)
	moved.SetFinalizers([]string{"example.com/hold"})
	at := metav1.Date(2021, 1, 2, 3, 4, 5, 0, metav1.Now().Location())
	moved.SetDeletionTimestamp(&at)
	data, err := moved.MarshalJSON()
	require.NoError(t, err)
	batch := migration.Batch{Move: oneNow, Objects: []json.RawMessage{data}}
	err = as.do("POST", "flunders", batch, nil)
	require.True(t, apierrors.IsConflict(err), "objects come while clients write: %v", err)

	require.NoError(t, as.do("PUT", "flunders", migration.Gate{To: oneNow}, nil))
	once := newMover(t, tripod.Admin()).client
	for range 10 { // at either replica
		err := once.Delete().AbsPath("/apis/wardle.example.com/v1beta1/namespaces/default/flunders/a").MaxRetries(0).Do(t.Context()).Error()
		require.True(t, apierrors.IsServiceUnavailable(err), "%v", err)
		_, wait := apierrors.SuggestsClientDelay(err)
		require.True(t, wait, "the answer has no Retry-After: %v", err)
	}
	require.NoError(t, as.do("POST", "flunders", batch, nil))
	got, err := mine.Get(t.Context(), "moved", metav1.GetOptions{})
	require.NoError(t, err, "reads go on")
	assert.Nil(t, migration.FirstDifference(moved.Object, got.Object))

	require.NoError(t, as.do("PUT", "flunders", migration.Gate{From: oneNow}, nil))
	got.SetFinalizers(nil)
	_, err = mine.Update(t.Context(), got, metav1.UpdateOptions{})
	require.NoError(t, err)
	_, err = mine.Get(t.Context(), "moved", metav1.GetOptions{})
	assert.True(t, apierrors.IsNotFound(err), "an object in deletion goes with its finalizer: %v", err)
}

// testCheck has the command check the definition, and others that the service could not take over.
func testCheck(t *testing.T, env *framework.Environment, tripod *framework.Tripod) {
	check := func(kubeconfig string, args ...string) (string, error) {
		command := exec.CommandContext(t.Context(), env.Binary("tripod"), append([]string{"migrate", "check-crd", "--kubeconfig", kubeconfig}, args...)...)
		var errs strings.Builder
		command.Stderr = &errs
		out, err := command.Output()
		if err != nil {
			lines := strings.Split(strings.TrimSpace(errs.String()), "\n")
			err = errors.New(lines[len(lines)-1])
		}
		return string(out), err
	}
	out, err := check(tripod.Kubeconfig, group, "--service", "wardle", "-o", "json")
	require.NoError(t, err)
	var resources []crd.Resource
	require.NoError(t, json.Unmarshal([]byte(out), &resources), out)
	require.Len(t, resources, 1)
	assert.Equal(t, "flunders."+group, resources[0].Name)
	assert.EqualValues(t, 250, resources[0].Objects)

	client := clientOf(t, tripod.Admin())
	create := func(resource schema.GroupVersionResource, namespace, text string) {
		object := &unstructured.Unstructured{}
		require.NoError(t, object.UnmarshalJSON([]byte(text)))
		_, err := client.Resource(resource).Namespace(namespace).Create(t.Context(), object, metav1.CreateOptions{})
		require.NoError(t, err)
		t.Cleanup(func() {
			assert.NoError(t, client.Resource(resource).Namespace(namespace).Delete(context.Background(), object.GetName(), metav1.DeleteOptions{}))
		})
	}
	other := func(name, conversion string) string {
		text := strings.ReplaceAll(flunder.definition(), group, name)
		return strings.Replace(text, `"scope": "Namespaced"`, `"scope": "Namespaced", "conversion": `+conversion, 1)
	}
	create(crds, "", other("other.example.com", `{"strategy": "None"}`))
	create(crds, "", other("webhook.example.com", `{"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
"clientConfig": {"url": "https://127.0.0.1:1"}}}`))
	stranger, err := tripod.UserKubeconfig(t.TempDir(), "stranger")
	require.NoError(t, err)
	for name, test := range map[string]struct {
		kubeconfig string
		args       []string
		wrong      string
	}{
		"a group without definitions": {tripod.Kubeconfig, []string{"none.example.com", "--service", "wardle"},
			`there is no CustomResourceDefinition of the group "none.example.com"`},
		"no service":          {tripod.Kubeconfig, []string{group, "--service", "none"}, `there is no API service "none"`},
		"a service of Tripod": {tripod.Kubeconfig, []string{group, "--service", "extensions"}, `there is no API service "extensions"`},
		"a service without the group": {tripod.Kubeconfig, []string{"other.example.com", "--service", "wardle"},
			`the service wardle does not serve the group "other.example.com"`},
		"a conversion webhook": {tripod.Kubeconfig, []string{"webhook.example.com", "--service", "wardle"},
			"flunders.webhook.example.com has a conversion webhook"},
		"no right": {stranger, []string{group, "--service", "wardle"}, "you need the right for the nonResourceURLs /migration/" + group},
	} {
		_, err := check(test.kubeconfig, test.args...)
		assert.ErrorContains(t, err, test.wrong, name)
	}
	t.Run("a field that would be lost", func(t *testing.T) {
		red := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"colour": "red"}}}
		red.SetGroupVersionKind(flunders.GroupVersion().WithKind("Flunder"))
		red.SetName("red")
		mine := client.Resource(flunders).Namespace("default")
		_, err := mine.Create(t.Context(), red, metav1.CreateOptions{})
		require.NoError(t, err)
		_, err = check(tripod.Kubeconfig, group, "--service", "wardle")
		require.ErrorContains(t, err, "flunders.wardle.example.com default/red: spec.colour would be lost")
		require.NoError(t, mine.Delete(t.Context(), "red", metav1.DeleteOptions{}))
	})
}
