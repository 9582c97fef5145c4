// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package seats

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework"
)

// writers is how many writes users have under way: many more than core has seats for them.
const writers = 60

// startSlowWebhook starts a webhook that answers when the test ends, and returns its URL and CA.
func startSlowWebhook(t *testing.T) (url string, ca []byte) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(req.Body).Decode(&review); err != nil || review.Request == nil {
			http.Error(w, "no review", http.StatusBadRequest)
			return
		}
		select {
		case <-t.Context().Done():
		case <-req.Context().Done():
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review) // core may not wait for it any longer
	}))
	t.Cleanup(server.Close)
	return server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

// callForConfigMaps has core call the webhook when a user creates a ConfigMap.
func callForConfigMaps(t *testing.T, client kubernetes.Interface, url string, ca []byte) {
	t.Helper()
	ignore, none, timeout := admissionregistrationv1.Ignore, admissionregistrationv1.SideEffectClassNone, int32(30)
	_, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "slow"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "slow.example.com", FailurePolicy: &ignore, SideEffects: &none, TimeoutSeconds: &timeout, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: ca},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// write has a user create ConfigMaps, many at a time, until the test ends.
func write(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	for range writers {
		running.Go(func() {
			for ctx.Err() == nil {
				object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "slow-"}}
				// It is refused while too many wait.
				_, _ = client.CoreV1().ConfigMaps("default").Create(ctx, object, metav1.CreateOptions{})
			}
		})
	}
}

func TestServicesDoNotQueueBehindUsers(t *testing.T) {
	t.Parallel()
	env := framework.ForTest(t)
	etcd, err := env.StartEtcd(t.Context(), env.Dir)
	require.NoError(t, err)
	fleet, err := env.StartFleet(t.Context(), framework.FleetOptions{EtcdURL: etcd, Replicas: []framework.ReplicaOptions{
		{Name: "core-0", Args: []string{"--max-requests-inflight=20", "--max-mutating-requests-inflight=10"}},
		{Name: "extensions-0", Later: true}, {Name: "aggregator-0", Later: true},
	}})
	require.NoError(t, err)
	master, err := kubernetes.NewForConfig(fleet.As("core-0", framework.Master))
	require.NoError(t, err)
	_, err = master.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "jane"},
		Subjects:   []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "jane"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	url, ca := startSlowWebhook(t)
	callForConfigMaps(t, master, url, ca)
	jane, err := kubernetes.NewForConfig(fleet.As("core-0", &user.DefaultInfo{Name: "jane", Groups: []string{user.AllAuthenticated}}))
	require.NoError(t, err)
	write(t, jane)
	framework.Eventually(t, "requests of users queue", func(ctx context.Context) error {
		queued, err := fleet.Metric(ctx, "core-0", "apiserver_flowcontrol_current_inqueue_requests", "priority_level=global-default")
		if err == nil && queued == 0 {
			err = fmt.Errorf("none is in a queue")
		}
		return err
	})

	schema, err := master.FlowcontrolV1().FlowSchemas().Get(t.Context(), flowcontrolv1.FlowSchemaNameExempt, metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, string(schema.UID), flowSchemaOf(t, fleet.Backend("core-0", "extensions"), "/api/v1/namespaces"), "the FlowSchema of a list by extensions")
	for _, name := range []string{"extensions-0", "aggregator-0"} {
		require.NoError(t, fleet.Replica(name).Start())
	}
	for _, name := range []string{"extensions-0", "aggregator-0"} {
		require.NoError(t, fleet.Replica(name).WaitReady(t.Context()))
	}
	queued, err := fleet.Metric(t.Context(), "core-0", "apiserver_flowcontrol_current_inqueue_requests", "priority_level=global-default")
	require.NoError(t, err)
	assert.NotZero(t, queued, "requests of users in queues, at the end")
}

// flowSchemaOf returns the UID of the FlowSchema that a request matches.
func flowSchemaOf(t *testing.T, config *rest.Config, path string) string {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+path, nil)
	require.NoError(t, err)
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	return resp.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID)
}
