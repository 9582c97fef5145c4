// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/services/search/apis/cluster/v1alpha2"
	"github.com/tripod-k8s/tripod/test/framework"
)

// liar returns a member that has what another one has, and one Role that no Kubernetes would have.
func liar(t *testing.T, of *framework.Stock) *rest.Config {
	t.Helper()
	admin, err := rest.TransportFor(of.Admin())
	require.NoError(t, err)
	target, err := url.Parse(of.URL)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport, proxy.FlushInterval = admin, -1
	const role = `{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "evil", "namespace": "team-a", "uid": "e", "resourceVersion": "1"}, "rules": "everything"}`
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path != "/apis/rbac.authorization.k8s.io/v1/roles" {
			proxy.ServeHTTP(w, req)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"type": "ADDED", "object": %s}
{"type": "BOOKMARK", "object": {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}}}}
`, role)
		w.(http.Flusher).Flush()
		<-req.Context().Done()
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return &rest.Config{Host: server.URL, BearerToken: "any", TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
}

// TestAMemberWithAWrongRoleClosesItselfOnly has a member whose Role does not decode, and another one whose rules change all the time.
func TestAMemberWithAWrongRoleClosesItselfOnly(t *testing.T) {
	t.Parallel()
	stock := teams(t)
	client, err := kubernetes.NewForConfig(stock.Admin())
	require.NoError(t, err)
	require.NoError(t, stock.Create(t.Context(), `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: nora, namespace: team-a}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reads-config-maps}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: nora}]
`))
	trust(t, "honest", kubeconfig(t, stock.Admin()))
	const honest, lying = resources + "/clusters/honest/api/v1/configmaps", resources + "/clusters/lying/api/v1/configmaps"
	awaitSeen(t, as("nora"), honest, "team-a/db", "team-a/web")
	trust(t, "lying", kubeconfig(t, liar(t, stock)))
	awaitCondition(t, "lying", v1alpha2.RBACRead, metav1.ConditionFalse, "roles team-a/evil: ")
	awaitList(t, lying+"?namespaces=team-a", "team-a/db", "team-a/web") // the administrator

	stop, changed := make(chan struct{}), make(chan struct{})
	go func() { // of a reader who may see nothing
		defer close(changed)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			rule := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{fmt.Sprint("x", i)}}
			role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "changing", Namespace: "team-b"}, Rules: []rbacv1.PolicyRule{rule}}
			if _, err := client.RbacV1().Roles("team-b").Update(context.Background(), role, metav1.UpdateOptions{}); err != nil {
				client.RbacV1().Roles("team-b").Create(context.Background(), role, metav1.CreateOptions{}) //nolint:errcheck // the next one fails then
			}
		}
	}()
	for range 20 {
		names, err := sees(t.Context(), as("nora"), honest)
		require.NoError(t, err)
		require.Equal(t, []string{"team-a/db", "team-a/web"}, names)
		// A request that names no cluster waits a moment only for rights that change all the time, and the replica that it reaches may not have read
		// the grant yet.
		framework.Eventually(t, "nora finds what the honest cluster shows", func(ctx context.Context) error {
			names, err := sees(ctx, as("nora"), resources+"/api/v1/configmaps")
			if err == nil && (!slices.Contains(names, "team-a/db") || !slices.Contains(names, "team-a/web")) {
				err = fmt.Errorf("got %q", names)
			}
			return err
		})
		names, err = sees(t.Context(), as("nora"), lying)
		require.NoError(t, err)
		require.Empty(t, names)
		_, err = rawGet(t.Context(), resources+"/apis")
		require.NoError(t, err, "discovery for administrators")
	}
	close(stop)
	<-changed
}

// TestThePastBelongsToWhoHadTheName has a namespace that goes to another owner, and a cluster whose name does.
func TestThePastBelongsToWhoHadTheName(t *testing.T) {
	t.Parallel()
	stock := teams(t)
	client, err := kubernetes.NewForConfig(stock.Admin())
	require.NoError(t, err)
	const plan, path = "reborn/plan", resources + "/clusters/reborn/api/v1/configmaps"
	template := `
apiVersion: v1
kind: Namespace
metadata: {name: reborn}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: %s, namespace: reborn}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: owner, namespace: reborn}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reads-config-maps}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %s}]
`
	require.NoError(t, stock.Create(t.Context(), fmt.Sprintf(template, "plan", "former")+`---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: everywhere}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reads-config-maps}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: everywhere}]
`))
	trust(t, "reborn", kubeconfig(t, stock.Admin()))
	awaitSeen(t, as("former"), path, plan)
	searched := searching(t, fleet.Admin(), "reborn").CoreV1()
	first, err := searched.Namespaces().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	then := "&at=" + first.ResourceVersion
	awaitSeen(t, as("former"), path+"?namespaces=reborn"+then, plan)

	// The namespace goes, as the controller of namespaces has it.
	require.NoError(t, client.CoreV1().ConfigMaps("reborn").Delete(t.Context(), "plan", metav1.DeleteOptions{}))
	require.NoError(t, client.RbacV1().RoleBindings("reborn").Delete(t.Context(), "owner", metav1.DeleteOptions{}))
	require.NoError(t, client.CoreV1().Namespaces().Delete(t.Context(), "reborn", metav1.DeleteOptions{}))
	gone, err := client.CoreV1().Namespaces().Get(t.Context(), "reborn", metav1.GetOptions{})
	require.NoError(t, err)
	gone.Spec.Finalizers = nil
	_, err = client.CoreV1().Namespaces().Finalize(t.Context(), gone, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.NoError(t, stock.Create(t.Context(), fmt.Sprintf(template, "new", "present")))
	awaitSeen(t, as("present"), path+"?namespaces=reborn", "reborn/new")
	framework.Eventually(t, "the new Namespace is copied", func(ctx context.Context) error {
		list, err := searched.Namespaces().List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=reborn"})
		if err == nil && (len(list.Items) != 1 || list.Items[0].UID == gone.UID) {
			err = fmt.Errorf("it is not")
		}
		return err
	})
	seen := func(who *rest.Config, query string) []string {
		t.Helper()
		names, err := sees(t.Context(), who, path+"?namespaces=reborn"+query)
		require.NoError(t, err)
		return names
	}
	// A replica that has looked less than 100 ms ago does not know of a new right yet.
	awaitSeen(t, as("present"), path+"?namespaces=reborn&at=now", "reborn/new")
	assert.Empty(t, seen(as("present"), then), "what the former owner had")
	assert.Empty(t, seen(as("present"), "&differsFrom=now"+then))
	assert.Equal(t, []string{plan}, seen(as("everywhere"), then), "a right in the whole cluster")
	assert.Equal(t, []string{plan}, seen(fleet.Admin(), then))

	// So does the name of the cluster.
	removeClusters(t, "reborn")
	trust(t, "reborn", kubeconfig(t, stock.Admin()))
	awaitSeen(t, as("everywhere"), path+"?namespaces=reborn", "reborn/new")
	assert.Empty(t, seen(as("everywhere"), then), "what the former cluster had")
	assert.Empty(t, seen(fleet.Admin(), then))
	names, err := get(t.Context(), fleet.Admin(), resources+"/api/v1/configmaps?clusters=reborn&namespaces=reborn"+then)
	require.NoError(t, err)
	assert.Equal(t, []string{plan}, names, "an administrator of all clusters")
}
