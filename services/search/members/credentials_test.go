// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/tripod-k8s/tripod/services/search/hub"
	"github.com/tripod-k8s/tripod/services/search/v1alpha2"
)

func secret(name string, data map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name, "namespace": "clusters"}, "data": data,
	}}
}

func TestCredentialsFollowTheirSecrets(t *testing.T) {
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{secrets: "SecretList"},
		secret("east", map[string]any{"token": "dDE=", "ca": "Y2E=", "cert": "Y2VydA==", "key": "a2V5", "config": "Y29uZmln", "empty": ""}))
	c := credentials{objects: hub.New(client, func() {}), namespace: "clusters"}
	t.Cleanup(c.objects.Stop)
	of := func(key string) *v1alpha2.SecretKey { return &v1alpha2.SecretKey{Name: "east", Key: key} }
	resolved := func(from v1alpha2.Authentication) (spec v1alpha2.ClusterSpec, err error) {
		return c.resolve(v1alpha2.ClusterSpec{APIServer: "https://host", AuthenticationFrom: &from})
	}
	require.Eventually(t, func() bool { _, err := resolved(v1alpha2.Authentication{Token: of("token")}); return err == nil }, time.Minute, 10*time.Millisecond)

	spec, err := resolved(v1alpha2.Authentication{Token: of("token"), CA: of("ca"), Cert: of("cert"), Key: of("key")})
	require.NoError(t, err)
	assert.Equal(t, []string{"t1", "ca", "cert", "key", ""}, []string{string(spec.TokenData), string(spec.CAData), string(spec.CertData), string(spec.KeyData), string(spec.Kubeconfig)})
	spec, err = resolved(v1alpha2.Authentication{Kubeconfig: of("config"), Token: of("token")})
	require.NoError(t, err)
	assert.Equal(t, []string{"config", ""}, []string{string(spec.Kubeconfig), string(spec.TokenData)}, "a kubeconfig replaces the others")

	_, err = resolved(v1alpha2.Authentication{Token: of("other")})
	assert.ErrorContains(t, err, "authenticationFrom.token: secret clusters/east has nothing under the key other")
	_, err = resolved(v1alpha2.Authentication{Token: of("empty")})
	assert.ErrorContains(t, err, "has nothing under the key empty")
	missing := v1alpha2.Authentication{CA: &v1alpha2.SecretKey{Name: "west", Key: "ca"}}
	require.Eventually(t, func() bool {
		_, err := resolved(missing)
		return err != nil && err.Error() == "authenticationFrom.ca: secrets clusters/west does not exist"
	}, time.Minute, 10*time.Millisecond)

	own, err := c.resolve(v1alpha2.ClusterSpec{TokenData: []byte("own"), AuthenticationFrom: &v1alpha2.Authentication{Token: of("token")}})
	require.NoError(t, err)
	assert.Equal(t, "own", string(own.TokenData), "the credentials of the spec count first")

	_, err = client.Resource(secrets).Namespace("clusters").Update(t.Context(), secret("east", map[string]any{"token": "dDI="}), metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		spec, err := resolved(v1alpha2.Authentication{Token: of("token")})
		return err == nil && string(spec.TokenData) == "t2"
	}, time.Minute, 10*time.Millisecond)
}

func TestSecretsThatMayNotBeRead(t *testing.T) {
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{secrets: "SecretList"})
	client.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(secrets.GroupResource(), "", nil)
	})
	spec := v1alpha2.ClusterSpec{APIServer: "https://host", AuthenticationFrom: &v1alpha2.Authentication{Token: &v1alpha2.SecretKey{Name: "east", Key: "token"}}}
	none := credentials{}
	_, err := none.resolve(spec)
	assert.ErrorContains(t, err, "start it with --secret-namespace")
	c := credentials{objects: hub.New(client, func() {}), namespace: "clusters"}
	t.Cleanup(c.objects.Stop)
	require.Eventually(t, func() bool {
		_, err := c.resolve(spec)
		return apierrors.IsForbidden(err)
	}, time.Minute, 10*time.Millisecond)
}

func TestAMemberStartsAnewWhenItsCredentialsChange(t *testing.T) {
	spec := func(token string) v1alpha2.ClusterSpec { return v1alpha2.ClusterSpec{TokenData: []byte(token)} }
	failing := func(text string) *running { return &running{invalid: assert.AnError, unresolved: text != ""} }
	for name, test := range map[string]struct {
		has, wanted *running
		differs     bool
	}{
		"the same":             {&running{spec: spec("a")}, &running{spec: spec("a")}, false},
		"another token":        {&running{spec: spec("a")}, &running{spec: spec("b")}, true},
		"the Secret is gone":   {&running{spec: spec("a")}, failing("x"), true},
		"it is still gone":     {failing("x"), failing("x"), false},
		"it is there again":    {failing("x"), &running{spec: spec("a")}, true},
		"an invalid spec":      {&running{invalid: assert.AnError}, &running{}, false},
		"now another resource": {&running{}, &running{shared: []v1alpha2.GroupResources{{Group: "apps"}}}, true},
	} {
		assert.Equal(t, test.differs, test.has.differs(test.wanted), name)
	}
}
