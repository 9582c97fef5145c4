// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/tripod-k8s/tripod/e2e/release"
	"github.com/tripod-k8s/tripod/test/framework"
)

// TestControllers checks that a release with the default values is complete as an API: what its controllers have to do gets done.
func TestControllers(t *testing.T) {
	r := shared(t)
	client, err := kubernetes.NewForConfig(r.Admin())
	require.NoError(t, err)
	for name, test := range map[string]func(*testing.T, *release.Release, kubernetes.Interface){
		"a deleted namespace goes":                   namespaceGoes,
		"an object whose owner is gone goes":         childGoes,
		"quota is counted again":                     quotaIsCounted,
		"a certificate is signed":                    certificateIsSigned,
		"a new namespace has what pods need":         namespaceIsFurnished,
		"a token in a Secret is made":                secretGetsToken,
		"a ClusterRole gets the rules of others":     rolesAreAggregated,
		"Endpoints are mirrored to an EndpointSlice": endpointsAreMirrored,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, r, client)
		})
	}
}

// namespaceGoes deletes a namespace with an object of each service, and a claim, which has a finalizer that only its controller removes.
func namespaceGoes(t *testing.T, r *release.Release, client kubernetes.Interface) {
	user := newUser(t, r)
	customs := release.Customs(1)
	require.NoError(t, r.Define(t.Context(), customs))
	for _, object := range []string{
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}",
		"{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}",
		fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: a}}", customs[0].Version, customs[0].Kind),
	} {
		user.kubectl(object, "create", "-f", "-").contains("created")
	}
	user.kubectl("", "get", "persistentvolumeclaim", "a", "-o", "jsonpath={.metadata.finalizers}").contains("kubernetes.io/pvc-protection")
	require.NoError(t, client.CoreV1().Namespaces().Delete(t.Context(), user.namespace, metav1.DeleteOptions{}))
	framework.Eventually(t, "the namespace is gone", func(ctx context.Context) error {
		namespace, err := client.CoreV1().Namespaces().Get(ctx, user.namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is still there: %v, %w", namespace.Status, err)
	})
}

func childGoes(t *testing.T, r *release.Release, client kubernetes.Interface) {
	objects := client.CoreV1().ConfigMaps(newUser(t, r).namespace)
	owner, err := objects.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = objects.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "child", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID},
	}}}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, objects.Delete(t.Context(), owner.Name, metav1.DeleteOptions{}))
	framework.Eventually(t, "the child is gone", func(ctx context.Context) error {
		_, err := objects.Get(ctx, "child", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is still there: %w", err)
	})
}

// quotaIsCounted frees what an object has used. Admission only adds to it.
func quotaIsCounted(t *testing.T, r *release.Release, client kubernetes.Interface) {
	user := newUser(t, r)
	used := func(want string) {
		framework.Eventually(t, "used is "+want, func(ctx context.Context) error {
			quota, err := client.CoreV1().ResourceQuotas(user.namespace).Get(ctx, "a", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if now := quota.Status.Used["count/secrets"]; now.String() != want {
				return fmt.Errorf("used is %s", now.String())
			}
			return nil
		})
	}
	user.kubectl("", "create", "quota", "a", "--hard=count/secrets=1")
	used("0")
	user.kubectl("", "create", "secret", "generic", "a")
	used("1")
	user.kubectl("", "delete", "secret", "a")
	used("0")
}

// certificateIsSigned gets a certificate for a client, and uses it.
func certificateIsSigned(t *testing.T, r *release.Release, client kubernetes.Interface) {
	name := framework.UniqueName("jane")
	key, err := keyutil.MakeEllipticPrivateKeyPEM()
	require.NoError(t, err)
	parsed, err := keyutil.ParsePrivateKeyPEM(key)
	require.NoError(t, err)
	request, err := cert.MakeCSR(parsed, &pkix.Name{CommonName: name}, nil, nil)
	require.NoError(t, err)
	requests := client.CertificatesV1().CertificateSigningRequests()
	csr, err := requests.Create(t.Context(), &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: request, SignerName: certificatesv1.KubeAPIServerClientSignerName, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test",
	}}
	_, err = requests.UpdateApproval(t.Context(), name, csr, metav1.UpdateOptions{})
	require.NoError(t, err)
	framework.Eventually(t, "the certificate is issued", func(ctx context.Context) (err error) {
		if csr, err = requests.Get(ctx, name, metav1.GetOptions{}); err == nil && len(csr.Status.Certificate) == 0 {
			err = fmt.Errorf("its status is %v", csr.Status)
		}
		return err
	})
	config := rest.AnonymousClientConfig(r.Admin())
	config.CertData, config.KeyData = csr.Status.Certificate, key
	jane, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	me, err := jane.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	require.NoError(t, err)
	assert.Equal(t, name, me.Status.UserInfo.Username)
}

// namespaceIsFurnished expects the ServiceAccount of a new namespace, for which a token is issued, and the authority of the API.
func namespaceIsFurnished(t *testing.T, r *release.Release, client kubernetes.Interface) {
	user := newUser(t, r)
	framework.Eventually(t, "the ServiceAccount default gets a token", func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts(user.namespace).CreateToken(ctx, "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		return err
	})
	framework.Eventually(t, "kube-root-ca.crt has the authority of the API", func(ctx context.Context) error {
		bundle, err := client.CoreV1().ConfigMaps(user.namespace).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		if err == nil && strings.TrimSpace(bundle.Data["ca.crt"]) != strings.TrimSpace(string(r.Admin().CAData)) {
			err = fmt.Errorf("it has %q", bundle.Data["ca.crt"])
		}
		return err
	})
}

func secretGetsToken(t *testing.T, r *release.Release, client kubernetes.Interface) {
	user := newUser(t, r)
	user.kubectl("", "create", "serviceaccount", "robot")
	user.kubectl("{apiVersion: v1, kind: Secret, type: kubernetes.io/service-account-token, "+
		"metadata: {name: robot, annotations: {kubernetes.io/service-account.name: robot}}}", "create", "-f", "-")
	var token []byte
	framework.Eventually(t, "the Secret has a token", func(ctx context.Context) error {
		secret, err := client.CoreV1().Secrets(user.namespace).Get(ctx, "robot", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if token = secret.Data[corev1.ServiceAccountTokenKey]; len(token) == 0 {
			return fmt.Errorf("it has %d keys", len(secret.Data))
		}
		return nil
	})
	review, err := client.AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: string(token)},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	assert.Equal(t, "system:serviceaccount:"+user.namespace+":robot", review.Status.User.Username)
}

func rolesAreAggregated(t *testing.T, _ *release.Release, client kubernetes.Interface) {
	name := framework.UniqueName("boats")
	_, err := client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{name + ".example.com"}, Resources: []string{"boats"}, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	framework.Eventually(t, "view has the rule", func(ctx context.Context) error {
		view, err := client.RbacV1().ClusterRoles().Get(ctx, "view", metav1.GetOptions{})
		if err != nil {
			return err
		}
		rules, err := json.Marshal(view.Rules)
		if err == nil && !strings.Contains(string(rules), name) {
			err = fmt.Errorf("it has %s", rules)
		}
		return err
	})
}

func endpointsAreMirrored(t *testing.T, r *release.Release, client kubernetes.Interface) {
	user := newUser(t, r)
	user.kubectl("", "create", "service", "clusterip", "a", "--clusterip=None", "--tcp=80")
	user.kubectl(`{"spec": {"selector": null}}`, "patch", "service", "a", "--patch-file=/dev/stdin")
	user.kubectl("{apiVersion: v1, kind: Endpoints, metadata: {name: a}, subsets: [{addresses: [{ip: 192.0.2.7}], ports: [{port: 80}]}]}", "create", "-f", "-")
	framework.Eventually(t, "an EndpointSlice has the address", func(ctx context.Context) error {
		slices, err := client.DiscoveryV1().EndpointSlices(user.namespace).List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=a"})
		if err == nil && (len(slices.Items) == 0 || slices.Items[0].Endpoints[0].Addresses[0] != "192.0.2.7") {
			err = fmt.Errorf("the slices are %v", slices.Items)
		}
		return err
	})
}
