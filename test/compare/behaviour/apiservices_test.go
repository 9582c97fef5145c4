// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregator "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	apiregistrationclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"
	"k8s.io/utils/ptr"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/both"
)

// There is one sample API server, and one name for its APIService, so these are steps of one test.
func TestAThirdPartyAPIServer(t *testing.T) {
	t.Parallel()
	server := startSampleServer(t, environment, cluster)
	t.Run("is used by name with a CA bundle", func(t *testing.T) {
		server.register(t, server.APIService(server.externalName(t), server.port))
		useFlunders(t, server)
		framework.Eventually(t, "discovery and OpenAPI have its group", func(ctx context.Context) error {
			return offered(ctx, server.Cluster.Admin(), true)
		})
		doNotBelieveHeaders(t)
		impersonate(t)
		server.unregister(t)
	})
	t.Run("is used by name without verification", func(t *testing.T) {
		service := server.APIService(server.externalName(t), server.port)
		service.Spec.CABundle, service.Spec.InsecureSkipTLSVerify = nil, true
		server.register(t, service)
		useFlunders(t, server)
		server.unregister(t)
	})
	t.Run("is not used when its certificate is signed by somebody else", func(t *testing.T) {
		service := server.APIService(server.externalName(t), server.port)
		service.Spec.CABundle = newConversionWebhook(t).caBundle()
		server.create(t, service)
		server.awaitAvailable(t, apiregistrationv1.ConditionFalse)
		server.refuses(t)
		server.unregister(t)
	})
	t.Run("is unavailable when it has died", func(t *testing.T) {
		server.register(t, server.APIService(server.externalName(t), server.port))
		require.NoError(t, server.Signal(syscall.SIGKILL))
		<-server.Done()
		server.refuses(t)
		server.awaitAvailable(t, apiregistrationv1.ConditionFalse)
		server.refuses(t)
		assert.NoError(t, hasDiscoveryOfTheRest(t.Context(), cluster.Admin()))
		server.unregister(t)
	})
}

func TestAThirdPartyAPIServerIsUsedByEndpointAddress(t *testing.T) {
	t.Parallel()
	routing, err := optional()
	require.NoError(t, err)
	server := startSampleServer(t, environment, routing)
	ctx, client := t.Context(), kubeClient(t, routing.Admin())
	_, err = client.CoreV1().Services(server.Namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "by-address"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Port: 443}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = client.DiscoveryV1().EndpointSlices(server.Namespace).Create(ctx, &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "by-address-1", Labels: map[string]string{discoveryv1.LabelServiceName: "by-address"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("https"), Port: ptr.To(int32(server.port)), Protocol: ptr.To(corev1.ProtocolTCP)}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{framework.HostAddress(t)}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	server.register(t, server.APIService("by-address", 443))
	useFlunders(t, server)
	server.unregister(t)
}

func (s *sampleServer) apiServices(t testing.TB) apiregistrationclient.APIServiceInterface {
	t.Helper()
	client, err := aggregator.NewForConfig(s.Cluster.Admin())
	require.NoError(t, err)
	return client.ApiregistrationV1().APIServices()
}

func (s *sampleServer) register(t testing.TB, service *apiregistrationv1.APIService) {
	t.Helper()
	s.create(t, service)
	s.awaitAvailable(t, apiregistrationv1.ConditionTrue)
}

// create makes an APIService that does not outlive the test.
func (s *sampleServer) create(t testing.TB, service *apiregistrationv1.APIService) {
	t.Helper()
	t.Cleanup(func() {
		err := s.apiServices(t).Delete(context.Background(), flunderService, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	_, err := s.apiServices(t).Create(t.Context(), service, metav1.CreateOptions{})
	require.NoError(t, err)
}

func (s *sampleServer) awaitAvailable(t testing.TB, want apiregistrationv1.ConditionStatus) {
	t.Helper()
	framework.Eventually(t, "Available is "+string(want), func(ctx context.Context) error {
		service, err := s.apiServices(t).Get(ctx, flunderService, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range service.Status.Conditions {
			if condition.Type == apiregistrationv1.Available && condition.Status == want {
				return nil
			}
		}
		return fmt.Errorf("conditions are %v", service.Status.Conditions)
	})
}

// unregister deletes the APIService, after which nothing is left of the group.
func (s *sampleServer) unregister(t testing.TB) {
	t.Helper()
	require.NoError(t, s.apiServices(t).Delete(t.Context(), flunderService, metav1.DeleteOptions{}))
	framework.Eventually(t, "the group is gone", func(ctx context.Context) error {
		if err := offered(ctx, s.Cluster.Admin(), false); err != nil {
			return err
		}
		resp, err := send(ctx, s.Cluster.Admin(), http.MethodGet, flunders.path(s.Namespace), nil, nil)
		if err == nil && resp.Code != http.StatusNotFound {
			err = fmt.Errorf("flunders answer %d: %s", resp.Code, resp.Body)
		}
		return err
	})
}

// refuses expects the answers that clients get while the server cannot be reached.
func (s *sampleServer) refuses(t testing.TB) {
	t.Helper()
	resp := get(t, s.Cluster.Admin(), flunders.path(s.Namespace))
	assert.Equal(t, http.StatusServiceUnavailable, resp.Code, "got %d: %s", resp.Code, resp.Body)
	if both.AgainstStock {
		return // its answer is bare text
	}
	if status := resp.status(t); status.Reason != metav1.StatusReasonServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("got %+v with Retry-After %q", status, resp.Header.Get("Retry-After"))
	}
}

// useFlunders has two users try the resource, of whom one may. The API server authorizes them itself.
func useFlunders(t testing.TB, s *sampleServer) {
	t.Helper()
	group := framework.UniqueName("fishers")
	rbac := kubeClient(t, s.Cluster.Admin()).RbacV1()
	_, err := rbac.Roles(s.Namespace).Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: group},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{flunders.Group}, Resources: []string{"*"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = rbac.RoleBindings(s.Namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: group},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: group},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.GroupKind, Name: group, APIGroup: rbacv1.GroupName}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	allowed, err := s.Cluster.UserConfig("alice", group)
	require.NoError(t, err)
	client := dynamicClient(t, allowed).Resource(flunders.GroupVersionResource).Namespace(s.Namespace)
	framework.Eventually(t, "the role is in force", func(ctx context.Context) error {
		_, err := client.List(ctx, metav1.ListOptions{})
		return err
	})
	watcher, err := client.Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	defer watcher.Stop()
	create(t, client, flunder("a"))
	if event := <-watcher.ResultChan(); event.Type != "ADDED" {
		t.Errorf("the watch got %v", event)
	}
	assert.NoError(t, client.Delete(t.Context(), "a", metav1.DeleteOptions{}))
	denied, err := s.Cluster.UserConfig("bob", "somebody-else")
	require.NoError(t, err)
	_, err = dynamicClient(t, denied).Resource(flunders.GroupVersionResource).Namespace(s.Namespace).List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `User "bob" cannot list`) {
		t.Errorf("somebody without the role: %v", err)
	}
}

// impersonate has users act as others. The server gets only the impersonated users.
func impersonate(t *testing.T) {
	t.Run("sees whom a user impersonates", func(t *testing.T) {
		as := map[string][]string{"Impersonate-User": {"somebody"}}
		resp := request(t, cluster.Admin(), http.MethodGet, flunders.path("default"), as, nil)
		if resp.Code != http.StatusForbidden || !strings.Contains(resp.status(t).Message, `User "somebody" cannot list`) {
			t.Errorf("an administrator as somebody got %d: %s", resp.Code, resp.Body)
		}
		resp = request(t, user(t, "mallory"), http.MethodGet, flunders.path("default"), as, nil)
		if resp.Code != http.StatusForbidden || !strings.Contains(resp.status(t).Message, `User "mallory" cannot impersonate`) {
			t.Errorf("a user without permission got %d: %s", resp.Code, resp.Body)
		}
	})
}

// doNotBelieveHeaders sends the server headers that claim another user than the certificate.
func doNotBelieveHeaders(t *testing.T) {
	for name, lines := range spoofed {
		t.Run("does not see headers: "+name, func(t *testing.T) {
			for who, config := range map[string]*rest.Config{"mallory": user(t, "mallory"), "system:anonymous": cluster.Anonymous()} {
				resp := roundTrip(t, config, http.MethodGet, flunders.path("default"), lines, "")
				if resp.Code != http.StatusForbidden || !strings.Contains(resp.status(t).Message, fmt.Sprintf("User %q cannot list", who)) {
					t.Errorf("%s got %d: %s", who, resp.Code, resp.Body)
				}
			}
		})
	}
}

// offered compares discovery and OpenAPI with whether the group should be there.
func offered(ctx context.Context, config *rest.Config, want bool) error {
	for _, place := range []struct{ path, accept, text string }{
		{"/apis", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", `"flunders"`},
		{"/apis", "application/json", `"wardle.example.com/v1alpha1"`},
		{"/apis/wardle.example.com", "application/json", `"wardle.example.com/v1alpha1"`},
		{"/openapi/v3", "application/json", "apis/wardle.example.com/v1alpha1"},
		{"/openapi/v2", "application/json", "/apis/wardle.example.com/v1alpha1/namespaces/{namespace}/flunders"},
	} {
		resp, err := send(ctx, config, http.MethodGet, place.path, map[string][]string{"Accept": {place.accept}}, nil)
		if err != nil {
			return err
		}
		if got := resp.Code == http.StatusOK && strings.Contains(string(resp.Body), place.text); got != want {
			return fmt.Errorf("%s (%s) has %s: %v, status %d", place.path, place.accept, place.text, got, resp.Code)
		}
	}
	return hasDiscoveryOfTheRest(ctx, config)
}

// hasDiscoveryOfTheRest fails when discovery lacks what has nothing to do with a third party.
func hasDiscoveryOfTheRest(ctx context.Context, config *rest.Config) error {
	resp, err := send(ctx, config, http.MethodGet, "/apis", nil, nil)
	for _, want := range []string{`"apps/v1"`, `"apiextensions.k8s.io/v1"`} {
		if err == nil && !strings.Contains(string(resp.Body), want) {
			err = fmt.Errorf("/apis is without %s: %s", want, resp.Body)
		}
	}
	return err
}
