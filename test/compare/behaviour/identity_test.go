// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework"
)

// servedBy has a path of each server that a cluster consists of, and the answer to a user who may not read it.
func servedBy(t testing.TB) map[string]string {
	t.Helper()
	gvr, err := sharedWidgets()
	require.NoError(t, err)
	return map[string]string{
		"core":        "/api/v1/namespaces/default/secrets",
		"custom":      resource{gvr, "Widget"}.path("default"),
		"aggregator":  "/apis/apiregistration.k8s.io/v1/apiservices",
		"extensions":  "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
		"nonexisting": "/apis/nobody.example.com/v1/things",
	}
}

func user(t testing.TB, name string, groups ...string) *rest.Config {
	t.Helper()
	config, err := cluster.UserConfig(name, groups...)
	require.NoError(t, err)
	return config
}

// whoAmI is the answer to a SelfSubjectReview.
func whoAmI(ctx context.Context, config *rest.Config) (authenticationv1.UserInfo, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return authenticationv1.UserInfo{}, err
	}
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.UserInfo{}, err
	}
	return review.Status.UserInfo, nil
}

func TestAUserIsWhomTheCertificateNames(t *testing.T) {
	t.Parallel()
	info, err := whoAmI(t.Context(), user(t, "alice", "painters", "poets"))
	require.NoError(t, err)
	slices.Sort(info.Groups) // the certificate has them in no order
	if info.Username != "alice" || !slices.Equal(info.Groups, []string{"painters", "poets", "system:authenticated"}) {
		t.Errorf("got %v", info)
	}
	assert.Len(t, info.Extra["authentication.kubernetes.io/credential-id"], 1, "extra: %v", info.Extra)
}

func TestForbiddenRequestsGetAStatusThatNamesTheUser(t *testing.T) {
	t.Parallel()
	for server, path := range servedBy(t) {
		t.Run(server, func(t *testing.T) {
			resp := get(t, user(t, "nobody-special"), path)
			require.Equal(t, http.StatusForbidden, resp.Code, "got %d: %s", resp.Code, resp.Body)
			status := resp.status(t)
			if status.Reason != metav1.StatusReasonForbidden || !strings.Contains(status.Message, `User "nobody-special" cannot list resource`) {
				t.Errorf("got %+v", status)
			}
		})
	}
}

func TestAnonymousRequestsGetOnlyWhatIsPublic(t *testing.T) {
	t.Parallel()
	for server, path := range servedBy(t) {
		t.Run(server, func(t *testing.T) {
			resp := get(t, cluster.Anonymous(), path)
			if resp.Code != http.StatusForbidden || !strings.Contains(resp.status(t).Message, `User "system:anonymous"`) {
				t.Errorf("got %d: %s", resp.Code, resp.Body)
			}
		})
	}
	for _, path := range []string{"/version", "/livez", "/readyz", "/healthz"} {
		if resp := get(t, cluster.Anonymous(), path); resp.Code != http.StatusOK {
			t.Errorf("%s answers %d: %s", path, resp.Code, resp.Body)
		}
	}
	for _, path := range []string{"/apis", "/api", "/openapi/v2", "/openapi/v3", "/metrics", "/"} {
		if resp := get(t, cluster.Anonymous(), path); resp.Code != http.StatusForbidden {
			t.Errorf("%s answers %d: %s", path, resp.Code, resp.Body)
		}
	}
}

// kube-apiserver closes the HTTP/2 connection of a client that it cannot authenticate (CVE-2023-44487). It must be the
// client's own, not one that others share.
func TestUnknownClientsDoNotDisturbOthers(t *testing.T) {
	t.Parallel()
	unknown := []*rest.Config{cluster.Anonymous(), withToken("not.a.token")}
	ctx, cancel := context.WithCancel(t.Context())
	var disturbing sync.WaitGroup
	defer disturbing.Wait()
	defer cancel()
	for _, path := range servedBy(t) {
		for _, config := range unknown {
			disturbing.Go(func() {
				for ctx.Err() == nil {
					if _, err := send(ctx, config, http.MethodGet, path, nil, nil); err != nil && ctx.Err() == nil {
						t.Errorf("GET %s: %v", path, err)
						return
					}
				}
			})
		}
	}
	body, err := configMaps.object("a", "red").MarshalJSON()
	require.NoError(t, err)
	path := configMaps.path(createNamespace(t)) + "?dryRun=All"
	for range 300 {
		resp, err := send(t.Context(), cluster.Admin(), http.MethodPost, path, map[string][]string{"Content-Type": {"application/json"}}, body)
		if err != nil || resp.Code != http.StatusCreated {
			t.Fatalf("creating: %v, %d: %s", err, resp.Code, resp.Body)
		}
	}
}

func TestABadTokenIsUnauthorized(t *testing.T) {
	t.Parallel()
	config := withToken("not.a.token")
	for server, path := range servedBy(t) {
		t.Run(server, func(t *testing.T) {
			resp := get(t, config, path)
			require.Equal(t, http.StatusUnauthorized, resp.Code, "got %d: %s", resp.Code, resp.Body)
			if status := resp.status(t); status.Reason != metav1.StatusReasonUnauthorized || status.Message != "Unauthorized" {
				t.Errorf("got %+v", status)
			}
		})
	}
}

func TestImpersonationNeedsPermission(t *testing.T) {
	t.Parallel()
	for server, path := range servedBy(t) {
		t.Run(server, func(t *testing.T) {
			resp := request(t, user(t, "nobody-special"), http.MethodGet, path, map[string][]string{"Impersonate-User": {"admin"}, "Impersonate-Group": {"system:masters"}}, nil)
			if resp.Code != http.StatusForbidden || !strings.Contains(resp.status(t).Message, "nobody-special") ||
				!strings.Contains(resp.status(t).Message, "impersonate") {
				t.Errorf("got %d: %s", resp.Code, resp.Body)
			}
			resp = request(t, cluster.Admin(), http.MethodGet, path, map[string][]string{"Impersonate-User": {"somebody"}}, nil)
			if resp.Code != http.StatusForbidden || !strings.Contains(resp.status(t).Message, `User "somebody" cannot list`) {
				t.Errorf("an administrator as somebody else: %d: %s", resp.Code, resp.Body)
			}
		})
	}
}

func TestAPermittedUserActsAsAnother(t *testing.T) {
	t.Parallel()
	bind(t, rbacv1.Subject{Kind: rbacv1.UserKind, Name: "director", APIGroup: rbacv1.GroupName},
		rbacv1.PolicyRule{Verbs: []string{"impersonate"}, APIGroups: []string{""}, Resources: []string{"users"}, ResourceNames: []string{"actor"}},
		rbacv1.PolicyRule{Verbs: []string{"impersonate"}, APIGroups: []string{""}, Resources: []string{"groups"}, ResourceNames: []string{"stage"}},
		rbacv1.PolicyRule{Verbs: []string{"impersonate"}, APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"userextras/scene"}})
	config := user(t, "director")
	config.Impersonate = rest.ImpersonationConfig{UserName: "actor", Groups: []string{"stage"}, Extra: map[string][]string{"scene": {"one", "two"}}}
	var info authenticationv1.UserInfo
	framework.Eventually(t, "the permission is in force", func(ctx context.Context) (err error) {
		info, err = whoAmI(ctx, config)
		return err
	})
	if info.Username != "actor" || !slices.Equal(info.Groups, []string{"stage", "system:authenticated"}) ||
		!slices.Equal(info.Extra["scene"], []string{"one", "two"}) {
		t.Errorf("got %v", info)
	}
	config.Impersonate.UserName = "critic"
	if _, err := whoAmI(t.Context(), config); !apierrors.IsForbidden(err) {
		t.Errorf("as a user that is not permitted: %v", err)
	}
}

func TestRolesAreInForceForEveryServer(t *testing.T) {
	t.Parallel()
	for server, path := range servedBy(t) {
		t.Run(server, func(t *testing.T) {
			name := framework.UniqueName("reader")
			segments := strings.Split(strings.TrimPrefix(strings.TrimPrefix(path, "/api/v1"), "/apis/"), "/")
			group := segments[0]
			bind(t, rbacv1.Subject{Kind: rbacv1.GroupKind, Name: name, APIGroup: rbacv1.GroupName},
				rbacv1.PolicyRule{Verbs: []string{"list"}, APIGroups: []string{group}, Resources: []string{segments[len(segments)-1]}})
			want := http.StatusOK
			if server == "nonexisting" {
				want = http.StatusNotFound
			}
			config := user(t, "anybody", name)
			framework.Eventually(t, "the role is in force", func(ctx context.Context) error {
				resp, err := send(ctx, config, http.MethodGet, path, nil, nil)
				if err == nil && resp.Code != want {
					err = fmt.Errorf("got %d: %s", resp.Code, resp.Body)
				}
				return err
			})
			if resp := request(t, config, http.MethodPost, path, map[string][]string{"Content-Type": {"application/json"}}, []byte("{}")); resp.Code != http.StatusForbidden {
				t.Errorf("creating with a role to list: %d: %s", resp.Code, resp.Body)
			}
		})
	}
}

func TestServiceAccountTokensWorkUntilTheAccountIsGone(t *testing.T) {
	t.Parallel()
	ctx, namespace := t.Context(), createNamespace(t)
	client := kubeClient(t, cluster.Admin())
	accounts := client.CoreV1().ServiceAccounts(namespace)
	account, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	config := withToken(serviceAccountToken(t, namespace, "robot"))

	info, err := whoAmI(ctx, config)
	require.NoError(t, err)
	wantGroups := []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}
	if info.Username != "system:serviceaccount:"+namespace+":robot" || info.UID != string(account.UID) || !slices.Equal(info.Groups, wantGroups) {
		t.Errorf("got %v", info)
	}
	for server, path := range servedBy(t) {
		if resp := get(t, config, path); resp.Code != http.StatusForbidden || !strings.Contains(resp.status(t).Message, info.Username) {
			t.Errorf("%s: %d: %s", server, resp.Code, resp.Body)
		}
	}
	require.NoError(t, accounts.Delete(ctx, "robot", metav1.DeleteOptions{}))
	for server, path := range servedBy(t) {
		framework.Eventually(t, "the token is void for "+server, func(ctx context.Context) error {
			resp, err := send(ctx, config, http.MethodGet, path, nil, nil)
			if err == nil && resp.Code != http.StatusUnauthorized {
				err = fmt.Errorf("got %d: %s", resp.Code, resp.Body)
			}
			return err
		})
	}
}

func TestTokensForAnotherAudienceAreUnauthorized(t *testing.T) {
	t.Parallel()
	ctx, namespace := t.Context(), createNamespace(t)
	accounts := kubeClient(t, cluster.Admin()).CoreV1().ServiceAccounts(namespace)
	_, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	if _, err := whoAmI(ctx, withToken(serviceAccountToken(t, namespace, "robot", "vault"))); !apierrors.IsUnauthorized(err) {
		t.Errorf("got %v", err)
	}
}

func TestBootstrapTokensWork(t *testing.T) {
	t.Parallel()
	ctx, secrets := t.Context(), kubeClient(t, cluster.Admin()).CoreV1().Secrets(metav1.NamespaceSystem)
	_, err := secrets.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-abc123"},
		Type:       corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{
			"token-id": "abc123", "token-secret": "0123456789abcdef",
			"usage-bootstrap-authentication": "true", "auth-extra-groups": "system:bootstrappers:test",
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	var info authenticationv1.UserInfo
	framework.Eventually(t, "the token works", func(ctx context.Context) (err error) {
		info, err = whoAmI(ctx, withToken("abc123.0123456789abcdef"))
		return err
	})
	wantGroups := []string{"system:bootstrappers", "system:bootstrappers:test", "system:authenticated"}
	if info.Username != "system:bootstrap:abc123" || !slices.Equal(info.Groups, wantGroups) {
		t.Errorf("got %v", info)
	}
	require.NoError(t, secrets.Delete(ctx, "bootstrap-token-abc123", metav1.DeleteOptions{}))
	framework.Eventually(t, "the token does not work any more", func(ctx context.Context) error {
		_, err := whoAmI(ctx, withToken("abc123.0123456789abcdef"))
		return unless(apierrors.IsUnauthorized, err)
	})
}

func TestKubectlTellsWhoTheUserIs(t *testing.T) {
	t.Parallel()
	command := exec.CommandContext(t.Context(), environment.Binary("tripod"), "kubectl", "--kubeconfig", cluster.Kubeconfig, "auth", "whoami")
	output, err := command.CombinedOutput()
	if err != nil || !strings.Contains(string(output), "system:masters") {
		t.Errorf("%v: %s", err, output)
	}
}

func withToken(token string) *rest.Config {
	config := cluster.Anonymous()
	config.BearerToken = token
	return config
}

// serviceAccountToken returns a token for audiences, by default the API's own.
func serviceAccountToken(t testing.TB, namespace, name string, audiences ...string) string {
	t.Helper()
	request, err := kubeClient(t, cluster.Admin()).CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{Audiences: audiences},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	return request.Status.Token
}

// bind gives a subject the rules, everywhere.
func bind(t testing.TB, subject rbacv1.Subject, rules ...rbacv1.PolicyRule) {
	t.Helper()
	ctx, client := t.Context(), kubeClient(t, cluster.Admin()).RbacV1()
	name := framework.UniqueName("test")
	_, err := client.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = client.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{subject},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}
