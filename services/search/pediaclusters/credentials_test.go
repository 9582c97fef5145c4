// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pediaclusters

import (
	"encoding/base64"
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

	"github.com/tripod-k8s/tripod/services/search/apis/cluster/v1alpha2"
	"github.com/tripod-k8s/tripod/services/search/hub"
	"github.com/tripod-k8s/tripod/services/search/parties"
)

func secret(name, allows string, data map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "data": data,
		"metadata": map[string]any{"name": name, "namespace": "clusters", "annotations": map[string]any{v1alpha2.SecretAnnotation: allows}},
	}}
}

// credentialsOf reads some Secrets of a cluster.
func credentialsOf(t *testing.T, objects ...runtime.Object) (*credentials, *fake.FakeDynamicClient) {
	t.Helper()
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{secrets: "SecretList"}, objects...)
	c := &credentials{objects: hub.New(client, hub.StandardMemory(), func() {}), namespace: "clusters"}
	t.Cleanup(c.objects.Stop)
	for _, object := range objects {
		name := object.(*unstructured.Unstructured).GetName()
		require.Eventually(t, func() bool { _, err := c.objects.One(secrets, "clusters", name); return err == nil }, time.Minute, 10*time.Millisecond)
	}
	return c, client
}

func key(name, key string) *v1alpha2.SecretKey { return &v1alpha2.SecretKey{Name: name, Key: key} }

func TestCredentialsFollowTheirSecrets(t *testing.T) {
	c, client := credentialsOf(t, secret("east", "east=https://host", map[string]any{
		"token": "dDE=", "ca": "Y2E=", "cert": "Y2VydA==", "key": "a2V5", "config": "Y29uZmln", "empty": "",
	}))
	of := func(name string) *v1alpha2.SecretKey { return key("east", name) }
	resolved := func(from v1alpha2.Authentication) (spec v1alpha2.ClusterSpec, err error) {
		spec, _, err = c.resolve("east", parties.OfCluster("east"), v1alpha2.ClusterSpec{APIServer: "https://host", AuthenticationFrom: &from})
		return spec, err
	}

	spec, err := resolved(v1alpha2.Authentication{Token: of("token"), CA: of("ca"), Cert: of("cert"), Key: of("key")})
	require.NoError(t, err)
	assert.Equal(t, []string{"t1", "ca", "cert", "key", ""}, []string{string(spec.TokenData), string(spec.CAData), string(spec.CertData), string(spec.KeyData), string(spec.Kubeconfig)})
	spec, err = resolved(v1alpha2.Authentication{Kubeconfig: of("config"), Token: of("token")})
	require.NoError(t, err)
	assert.Equal(t, []string{"config", ""}, []string{string(spec.Kubeconfig), string(spec.TokenData)}, "a kubeconfig replaces the others")

	_, err = resolved(v1alpha2.Authentication{CA: of("ca"), Token: of("other")})
	assert.ErrorContains(t, err, "authenticationFrom.token: secret clusters/east has nothing under the key other")
	_, err = resolved(v1alpha2.Authentication{CA: of("ca"), Token: of("empty")})
	assert.ErrorContains(t, err, "has nothing under the key empty")
	_, err = resolved(v1alpha2.Authentication{Token: of("token")})
	assert.ErrorContains(t, err, "authenticationFrom names no ca")
	missing := v1alpha2.Authentication{CA: key("west", "ca")}
	require.Eventually(t, func() bool {
		_, err := resolved(missing)
		return err != nil && err.Error() == "authenticationFrom.ca: secrets clusters/west does not exist"
	}, time.Minute, 10*time.Millisecond)

	own, _, err := c.resolve("east", parties.OfCluster("east"), v1alpha2.ClusterSpec{TokenData: []byte("own"), AuthenticationFrom: &v1alpha2.Authentication{Token: of("token")}})
	require.NoError(t, err)
	assert.Equal(t, "own", string(own.TokenData), "the credentials of the spec count first")

	rotated := secret("east", "east=https://host", map[string]any{"token": "dDI=", "ca": "Y2E="})
	_, err = client.Resource(secrets).Namespace("clusters").Update(t.Context(), rotated, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		spec, err := resolved(v1alpha2.Authentication{CA: of("ca"), Token: of("token")})
		return err == nil && string(spec.TokenData) == "t2"
	}, time.Minute, 10*time.Millisecond)
}

// reach returns an error if a cluster may not be reached with the credentials that its spec names.
func reach(c *credentials, cluster string, spec v1alpha2.ClusterSpec) error {
	spec, permit, err := c.resolve(cluster, parties.OfCluster(cluster), spec)
	if err != nil {
		return err
	}
	config, err := configOf(&spec)
	if err == nil && permit != nil {
		err = permit.check(cluster, config.Host)
	}
	return err
}

func TestASecretSaysWhichClusterMayUseItForWhichServer(t *testing.T) {
	config := base64.StdEncoding.EncodeToString(kubeconfig(`{"token": "t"}`)) // of https://host:6443
	data := map[string]any{"token": "dA==", "ca": "Y2E=", "cert": "Y2VydA==", "key": "a2V5", "config": config}
	for allows, test := range map[string]struct {
		// token and inside report whether east may use its token for https://host:6443/k, and its kubeconfig.
		token, inside bool
	}{
		"":                               {},
		"west=https://host:6443/k":       {},
		"east":                           {inside: true},
		"east=":                          {inside: true},
		"west,east":                      {inside: true},
		"east=https://host:6443/k":       {token: true},
		"east=https://host:6443":         {inside: true},
		"east=https://HOST:6443/":        {inside: true},
		"east=https://host:6443/k/,east": {token: true, inside: true},
		"west, east=https://host:6443/k\n north=x": {token: true},
		"east=https://other, east=https://host":    {},
		"east=https://u@host:6443/k":               {},
		"east=http://host:6443/k":                  {},
		"eas=https://host:6443/k":                  {},
		"east2=https://host:6443":                  {},
	} {
		c, _ := credentialsOf(t, secret("one", allows, data), secret("open", "east=https://host:6443/k east=https://evil", data))
		token := func(server, secret string) error {
			return reach(c, "east", v1alpha2.ClusterSpec{APIServer: server, AuthenticationFrom: &v1alpha2.Authentication{CA: key("open", "ca"), Token: key(secret, "token")}})
		}
		err := token("https://host:6443/k", "one")
		assert.Equal(t, test.token, err == nil, "%q: %v", allows, err)
		if !test.token {
			assert.ErrorContains(t, err, "authenticationFrom.token: secret clusters/one does not let PediaCluster east use it for https://host:6443/k: "+
				"kubectl annotate secret --namespace clusters one tripod-k8s.io/pediaclusters=east=https://host:6443/k")
		}
		assert.Error(t, token("https://evil", "one"), allows)
		assert.NoError(t, token("https://evil", "open"), allows)

		// The other Secrets count as much as that of the token: a CA of the writer's choice would lead the token elsewhere.
		assert.Equal(t, test.token, nil == reach(c, "east", v1alpha2.ClusterSpec{APIServer: "https://host:6443/k", CAData: []byte("mine"),
			AuthenticationFrom: &v1alpha2.Authentication{CA: key("one", "ca"), Token: key("open", "token")}}), allows)
		assert.ErrorContains(t, reach(c, "east", v1alpha2.ClusterSpec{APIServer: "https://evil", CAData: []byte("mine"),
			AuthenticationFrom: &v1alpha2.Authentication{Token: key("open", "token")}}), "names no ca", allows)
		assert.Equal(t, test.token, nil == reach(c, "east", v1alpha2.ClusterSpec{APIServer: "https://host:6443/k",
			AuthenticationFrom: &v1alpha2.Authentication{CA: key("open", "ca"), Cert: key("open", "cert"), Key: key("one", "key")}}), allows)

		inside := v1alpha2.ClusterSpec{APIServer: "https://evil", AuthenticationFrom: &v1alpha2.Authentication{Kubeconfig: key("one", "config")}}
		err = reach(c, "east", inside)
		assert.Equal(t, test.inside, err == nil, "%q: %v", allows, err)
		if !test.inside {
			assert.ErrorContains(t, err, "kubectl annotate secret --namespace clusters one tripod-k8s.io/pediaclusters=east", allows)
		}
		assert.Error(t, reach(c, "north", inside), allows)
	}
}

func TestSecretsThatMayNotBeRead(t *testing.T) {
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{secrets: "SecretList"})
	client.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(secrets.GroupResource(), "", nil)
	})
	spec := v1alpha2.ClusterSpec{APIServer: "https://host", AuthenticationFrom: &v1alpha2.Authentication{CA: key("east", "ca"), Token: key("east", "token")}}
	none := credentials{}
	_, _, err := none.resolve("east", parties.OfCluster("east"), spec)
	assert.ErrorContains(t, err, "start it with --secret-namespace")
	c := credentials{objects: hub.New(client, hub.StandardMemory(), func() {}), namespace: "clusters"}
	t.Cleanup(c.objects.Stop)
	require.Eventually(t, func() bool {
		_, _, err := c.resolve("east", parties.OfCluster("east"), spec)
		return apierrors.IsForbidden(err)
	}, time.Minute, 10*time.Millisecond)
}

// TestPartiesShareSecrets has one name more Secrets than search follows.
func TestPartiesShareSecrets(t *testing.T) {
	c, _ := credentialsOf(t)
	c.objects.Most = 3
	resolve := func(cluster, party string) error {
		from := &v1alpha2.Authentication{Kubeconfig: key(cluster, "config")}
		_, _, err := c.resolve(cluster, parties.Of(cluster, party), v1alpha2.ClusterSpec{AuthenticationFrom: from})
		return err
	}
	for _, cluster := range []string{"a", "b", "c"} {
		require.NotErrorIs(t, resolve(cluster, "policy/tenant"), hub.ErrTooMany)
	}
	err := resolve("d", "policy/tenant")
	require.ErrorIs(t, err, hub.ErrTooMany)
	assert.ErrorContains(t, err, "authenticationFrom.kubeconfig: secret clusters/d: more than search follows: it follows 3 objects by their names: put the "+
		"credentials into the PediaCluster")
	require.NotErrorIs(t, resolve("alone", ""), hub.ErrTooMany)
	require.ErrorIs(t, resolve("c", "policy/tenant"), hub.ErrTooMany)
}

func TestAMemberStartsAnewWhenItsCredentialsChange(t *testing.T) {
	spec := func(token string) v1alpha2.ClusterSpec { return v1alpha2.ClusterSpec{TokenData: []byte(token)} }
	failing := func(text string) *running { return &running{invalid: assert.AnError, unresolved: text != ""} }
	for name, test := range map[string]struct {
		has, wanted *running
		differs     bool
	}{
		"the same":             {&running{spec: spec("a")}, &running{spec: spec("a")}, false},
		"another shardingName": {&running{spec: v1alpha2.ClusterSpec{ShardingName: "a"}}, &running{spec: v1alpha2.ClusterSpec{ShardingName: "b"}}, false},
		"another token":        {&running{spec: spec("a")}, &running{spec: spec("b")}, true},
		"the Secret is gone":   {&running{spec: spec("a")}, failing("x"), true},
		"it is still gone":     {failing("x"), failing("x"), false},
		"it is there again":    {failing("x"), &running{spec: spec("a")}, true},
		"an invalid spec":      {&running{invalid: assert.AnError}, &running{}, false},
		"the Secret allows another server": {&running{permit: &permit{servers: map[string][]string{"east": {"a"}}}},
			&running{permit: &permit{servers: map[string][]string{"east": {"b"}}}}, true},
		"made by a policy now": {&running{}, &running{party: parties.OfPolicy("policy", "namespace")}, true},
		"now another resource": {&running{}, &running{shared: []v1alpha2.GroupResources{{Group: "apps"}}}, true},
	} {
		assert.Equal(t, test.differs, test.has.differs(test.wanted), name)
	}
}
