// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tripod-k8s/tripod/admin/certs/secrets"
	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/both"
)

// TestCertificatesAreMadeByManyAtOnce runs what makes certificates several times at once, with no more rights than it needs, and
// demands that the result fits together and does not change any more.
func TestCertificatesAreMadeByManyAtOnce(t *testing.T) {
	t.Parallel()
	c := &secrets.Config{
		Namespace:   createNamespace(t),
		Labels:      map[string]string{"made": "here"},
		Authorities: []secrets.AuthorityConfig{{Secret: "ca", CommonName: "ca"}},
		Certificates: []secrets.CertificateConfig{
			{Secret: "server", Authority: "ca", CommonName: "server", DNSNames: []string{"server"}, Usages: []string{"server"}},
			{Secret: "admin", Authority: "ca", CommonName: "admin", Usages: []string{"client"}},
		},
		ServiceAccountKey: &secrets.KeyConfig{Secret: "signer"},
		Kubeconfig:        &secrets.KubeconfigConfig{Secret: "config", Key: "kubeconfig", Name: "test", Server: "https://server", Client: "admin"},
	}
	client := allowedToMake(t, c.Namespace, "ca", "server", "admin", "signer", "config")
	apply := func(o secrets.Options) {
		t.Helper()
		var running sync.WaitGroup
		for range 4 {
			running.Go(func() {
				if _, err := secrets.Apply(t.Context(), client, c, o); err != nil {
					t.Error(err)
				}
			})
		}
		running.Wait()
	}
	apply(secrets.Options{Settle: time.Hour})
	fitTogether(t, client, c)
	apply(secrets.Options{Settle: time.Hour, Renew: []string{secrets.All}})
	fitTogether(t, client, c)

	// One of them takes a step of a rotation; it does not matter which certificate the others had read.
	if _, err := secrets.Apply(t.Context(), client, c, secrets.Options{Rotate: []string{"ca"}}); err != nil {
		t.Fatal(err)
	}
	apply(secrets.Options{Settle: time.Hour, Renew: []string{secrets.All}})
	fitTogether(t, client, c)

	results, err := secrets.Apply(t.Context(), client, c, secrets.Options{Settle: time.Hour})
	require.NoError(t, err)
	for _, result := range results {
		if result.Action != secrets.Unchanged {
			t.Errorf("%s is %s at the end", result.Secret, result.Action)
		}
	}
}

// allowedToMake returns a client with the rights to get and update these Secrets and to create any.
func allowedToMake(t *testing.T, namespace string, secrets ...string) kubernetes.Interface {
	t.Helper()
	admin := kubeClient(t, cluster.Admin())
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "certificates"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "update"}, ResourceNames: secrets},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create"}},
	}}
	_, err := admin.RbacV1().Roles(namespace).Create(t.Context(), role, metav1.CreateOptions{})
	require.NoError(t, err)
	binding := &rbacv1.RoleBinding{ObjectMeta: role.ObjectMeta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: namespace + "-certificates"}}}
	_, err = admin.RbacV1().RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{})
	require.NoError(t, err)
	config := rest.CopyConfig(cluster.Admin())
	config.Impersonate.UserName = namespace + "-certificates"
	client := kubernetes.NewForConfigOrDie(config)
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "get", Resource: "secrets", Name: secrets[0]},
	}}
	require.NoError(t, framework.Poll(t.Context(), "the role is in force", func(ctx context.Context) error {
		answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err == nil && !answer.Status.Allowed {
			err = errors.New(answer.Status.Reason)
		}
		return err
	}))
	return client
}

func fitTogether(t *testing.T, client kubernetes.Interface, c *secrets.Config) {
	t.Helper()
	get := func(name string) *corev1.Secret {
		secret, err := client.CoreV1().Secrets(c.Namespace).Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		return secret
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(get("ca").Data["ca.crt"])
	for _, certificate := range c.Certificates {
		secret := get(certificate.Secret)
		pair, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
		if err != nil {
			t.Errorf("%s: %v", secret.Name, err)
			continue
		}
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
			t.Errorf("%s: %v", secret.Name, err)
		}
		if !bytes.Equal(secret.Data["ca.crt"], get("ca").Data["ca.crt"]) {
			t.Errorf("%s has other authorities than its own", secret.Name)
		}
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(get("config").Data["kubeconfig"])
	require.NoError(t, err)
	if !bytes.Equal(config.CertData, get("admin").Data["tls.crt"]) {
		t.Error("the kubeconfig has another certificate than its user")
	}
}

// TestTheKubeletClientMayUseKubeletsOnly asks what the user of the certificate for kubelets may do. Kubelets ask the same.
func TestTheKubeletClientMayUseKubeletsOnly(t *testing.T) {
	t.Parallel()
	both.NeedsTripod(t)
	config := cluster.Admin()
	config.CertFile, config.KeyFile = filepath.Join(cluster.PKI, "kubelet-client.crt"), filepath.Join(cluster.PKI, "kubelet-client.key")
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	for resource, want := range map[string]bool{
		"get /nodes": true, "create /nodes/proxy": true, "get /nodes/log": true, "get /nodes/metrics": true, "get /nodes/stats": true,
		"create /nodes": false, "get /secrets": false, "list /pods": false, "create /pods/exec": false, "create rbac.authorization.k8s.io/clusterrolebindings": false,
	} {
		verb, rest, _ := strings.Cut(resource, " ")
		group, rest, _ := strings.Cut(rest, "/")
		kind, subresource, _ := strings.Cut(rest, "/")
		review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: verb, Group: group, Resource: kind, Subresource: subresource,
			}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		if review.Status.Allowed != want {
			t.Errorf("%s: allowed is %v, want %v", resource, review.Status.Allowed, want)
		}
	}
}
