// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"gopkg.in/go-jose/go-jose.v2/jwt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	openapicommon "k8s.io/kube-openapi/pkg/common"
	api "k8s.io/kubernetes/pkg/apis/core"
	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"
	"k8s.io/kubernetes/pkg/serviceaccount"

	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

const ownIssuer = "https://kubernetes.default.svc"

// signingKey is that of all replicas. Another one signs tokens that only others know.
var signingKey, otherKey = newKey(), newKey()

func newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return key
}

// replica is the authentication of a replica of core: kube-apiserver's authenticators, and an API in memory.
type replica struct {
	*Service
	client *fake.Clientset
	// others know tokens that kube-apiserver's do not.
	others tokens
}

// newReplica returns a replica that has received its objects. It must be in a synctest bubble: all that a change of an
// object leads to has happened after synctest.Wait.
func newReplica(t *testing.T, client *fake.Clientset) *replica {
	t.Helper()
	keys, err := serviceaccount.StaticPublicKeysGetter([]any{signingKey.Public()})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "tokens.csv")
	require.NoError(t, os.WriteFile(file, []byte("static-token,jane,1\n"), 0o600))
	o := kubeoptions.NewBuiltInAuthenticationOptions().WithServiceAccounts().WithBootstrapToken().WithTokenFile()
	o.ServiceAccounts.Issuers = []string{ownIssuer}
	o.ServiceAccounts.ExternalPublicKeysGetter = keys
	o.BootstrapToken.Enable = true
	o.TokenFile.TokenFile = file
	o.TokenSuccessCacheTTL = 0

	factory := informers.NewSharedInformerFactory(client, 0)
	dependencies, err := Follow(factory, o.ServiceAccounts)
	require.NoError(t, err)
	var info genericapiserver.AuthenticationInfo
	require.NoError(t, o.ApplyTo(t.Context(), &info, nil, nil, &openapicommon.Config{}, nil, client, factory, "test"))
	r := &replica{client: client, others: tokens{}}
	r.Service = NewService(Config{
		Authenticator: union.New(info.Authenticator, websocket.NewProtocolAuthenticator(r.others)),
		APIAudiences:  info.APIAudiences,
		Dependencies:  dependencies,
	})
	if dependencies.Synced() {
		t.Fatal("it is synced before it starts")
	}
	ctx, cancel := context.WithCancel(t.Context())
	factory.Start(ctx.Done())
	t.Cleanup(func() { cancel(); factory.Shutdown() })
	synctest.Wait()
	r.SetReady(nil)
	if !dependencies.Synced() {
		t.Fatal("it is not synced")
	}
	return r
}

// named returns the metadata of an object in the namespace shop whose UID is "uid of " and its name.
func named(name string, change ...func(*metav1.ObjectMeta)) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid of " + name), ResourceVersion: "1"}
	for _, c := range change {
		c(&m)
	}
	return m
}

// deletedAt is set if the object is being deleted.
func deletedAt(at time.Time) func(*metav1.ObjectMeta) {
	return func(m *metav1.ObjectMeta) {
		m.DeletionTimestamp = &metav1.Time{Time: at}
		m.Finalizers = []string{"example.com/wait"}
	}
}

// boundToken returns a token of the service account builder, for an hour.
func boundToken(t *testing.T, key *ecdsa.PrivateKey, issuer string, pod *api.Pod, secret *api.Secret, node *api.Node) string {
	t.Helper()
	public, private := claims(t, named("builder"), pod, secret, node)
	return sign(t, key, issuer, public, private)
}

// ofWebhook returns a token that is bound to the configuration of a webhook.
func ofWebhook(t *testing.T) string {
	public, private := claims(t, named("builder"), nil, nil, nil)
	data, err := json.Marshal(private)
	require.NoError(t, err)
	var bound map[string]any
	require.NoError(t, json.Unmarshal(data, &bound))
	bound["kubernetes.io"].(map[string]any)["validatingwebhookconfiguration"] = map[string]any{"name": "webhook", "uid": "uid of webhook"}
	return sign(t, signingKey, ownIssuer, public, bound)
}

// legacyToken returns the token that the Secret holds.
func legacyToken(t *testing.T, secret string) string {
	t.Helper()
	public, private := serviceaccount.LegacyClaims(
		corev1.ServiceAccount{ObjectMeta: named("builder")}, corev1.Secret{ObjectMeta: named(secret)})
	return sign(t, signingKey, serviceaccount.LegacyIssuer, public, private)
}

func sign(t *testing.T, key *ecdsa.PrivateKey, issuer string, public *jwt.Claims, private any) string {
	t.Helper()
	generator, err := serviceaccount.JWTTokenGenerator(issuer, key)
	require.NoError(t, err)
	token, err := generator.GenerateToken(t.Context(), public, private)
	require.NoError(t, err)
	return token
}

// tokenSecret returns the Secret of a legacy token.
func tokenSecret(name, token string, change ...func(*metav1.ObjectMeta)) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: named(name, change...), Type: corev1.SecretTypeServiceAccountToken,
		Data: map[string][]byte{corev1.ServiceAccountTokenKey: []byte(token)},
	}
}

// bootstrapSecret returns the Secret of a bootstrap token with more data.
func bootstrapSecret(id, key, value string) *corev1.Secret {
	m := named("bootstrap-token-" + id)
	m.Namespace = metav1.NamespaceSystem
	return &corev1.Secret{ObjectMeta: m, Type: "bootstrap.kubernetes.io/token", Data: map[string][]byte{
		"token-id": []byte(id), "token-secret": []byte("0123456789abcdef"), "usage-bootstrap-authentication": []byte("true"), key: []byte(value),
	}}
}

func inWordsOf(dependencies []*identityv1.Dependency) []string {
	var words []string
	for _, d := range dependencies {
		words = append(words, d.GetKind().String()+" "+d.GetId())
	}
	return words
}

// mayBeKept reports whether a caller that has seen all invalidations may use the answer again.
func (r *replica) mayBeKept(t *testing.T, answer *identityv1.AuthenticateResponse) bool {
	t.Helper()
	if answer.GetUser() == nil || answer.GetFreshFor().AsDuration() == 0 {
		return false
	}
	for _, later := range inWords(t, r.config.Dependencies.invalidations, answer.GetSequence()) {
		if slices.Contains(inWordsOf(answer.GetDependencies()), later) {
			return false
		}
	}
	return true
}

// objects returns the client of an API with these and the service account builder.
func objects(others ...runtime.Object) *fake.Clientset {
	return fake.NewClientset(append(others, &corev1.ServiceAccount{ObjectMeta: named("builder")})...)
}
