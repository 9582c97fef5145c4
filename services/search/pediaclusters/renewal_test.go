// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pediaclusters

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	"github.com/tripod-k8s/tripod/services/search/apis/cluster/v1alpha2"
	"github.com/tripod-k8s/tripod/services/search/parties"
)

// tokenFor returns a token with some claims.
func tokenFor(t *testing.T, subject string, issued, expires *jwt.NumericDate) string {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: key}, nil)
	require.NoError(t, err)
	token, err := jwt.Signed(signer).Claims(jwt.Claims{Subject: subject, IssuedAt: issued, Expiry: expires}).Serialize()
	require.NoError(t, err)
	return token
}

const robot = "system:serviceaccount:kube-system:robot"

// forHours returns a token of robot that lives for some hours from now on.
func forHours(t *testing.T, hours time.Duration) string {
	t.Helper()
	return tokenFor(t, robot, jwt.NewNumericDate(time.Now()), jwt.NewNumericDate(time.Now().Add(hours*time.Hour)))
}

func TestOnlyTokensOfServiceAccountsThatExpireAreRenewed(t *testing.T) {
	now := jwt.NewNumericDate(time.Now())
	for token, want := range map[string]string{
		"":                            "not a token of a service account",
		"secret":                      "not a token of a service account",
		tokenFor(t, "jane", now, now): "not a token of a service account",
		tokenFor(t, robot, now, nil):  "it does not expire",
		// The name becomes a part of a path.
		tokenFor(t, "system:serviceaccount:kube-system:../secrets", now, now): "not a token of a service account",
	} {
		_, err := accountOf(token)
		require.ErrorContains(t, err, want)
	}
	a, err := accountOf(forHours(t, 3))
	require.NoError(t, err)
	assert.Equal(t, "kube-system robot 3h0m0s", a.namespace+" "+a.name+" "+a.lifetime().String())
	assert.Equal(t, a.issued.Add(time.Hour), a.due())
}

func TestOnlySecretsThatSaySoAreRenewed(t *testing.T) {
	renewed := secret("renewed", "east=https://host", map[string]any{"token": base64.StdEncoding.EncodeToString([]byte("t"))})
	renewed.SetAnnotations(map[string]string{v1alpha2.RenewAnnotation: "true"})
	c, _ := credentialsOf(t, renewed, secret("other", "east=https://host", map[string]any{"token": "dA=="}))
	of := func(spec v1alpha2.ClusterSpec) *storedToken { return c.renewable(parties.OfCluster("east"), &spec) }
	from := func(name string) *v1alpha2.Authentication { return &v1alpha2.Authentication{Token: key(name, "token")} }
	got := of(v1alpha2.ClusterSpec{AuthenticationFrom: from("renewed")})
	require.NotNil(t, got)
	assert.Equal(t, storedToken{secret: *key("renewed", "token"), namespace: "clusters", version: renewed.GetResourceVersion(), token: "t"}, *got)
	assert.Nil(t, of(v1alpha2.ClusterSpec{AuthenticationFrom: from("other")}))
	assert.Nil(t, of(v1alpha2.ClusterSpec{TokenData: []byte("own"), AuthenticationFrom: from("renewed")}))
	assert.Nil(t, of(v1alpha2.ClusterSpec{}))
}

// maker answers requests for tokens.
type maker func(lifetime time.Duration) (string, error)

func (m maker) RequestToken(_ context.Context, namespace, account string, lifetime time.Duration) (string, error) {
	if namespace+"/"+account != "kube-system/robot" {
		return "", errors.New("another account")
	}
	return m(lifetime)
}

func TestATokenIsRenewedAfterAThirdOfItsLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		token := forHours(t, 3)
		client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{secrets: "SecretList"},
			secret("east", "", map[string]any{"ca": "Y2E="}))
		all := newRenewals(client)
		var asked []time.Duration
		answer, refusal := "", error(nil)
		by := maker(func(lifetime time.Duration) (string, error) {
			asked = append(asked, lifetime)
			return answer, refusal
		})
		reconcile := func() *metav1.Condition {
			all.keep(t.Context(), "east", by, storedToken{secret: *key("east", "token"), namespace: "clusters", token: token})
			synctest.Wait()
			var status v1alpha2.ClusterStatus
			all.setCondition(&status, &v1alpha2.PediaCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}})
			return meta.FindStatusCondition(status.Conditions, v1alpha2.TokenRenewed)
		}
		assert.Equal(t, metav1.ConditionTrue, reconcile().Status)
		time.Sleep(time.Hour - time.Minute)
		reconcile()
		assert.Empty(t, asked, "it is too early")

		time.Sleep(2 * time.Minute)
		refusal = errors.New("forbidden")
		failed := reconcile()
		assert.Equal(t, metav1.ConditionFalse, failed.Status)
		assert.Contains(t, failed.Message, "cannot renew the token in secret clusters/east: forbidden; the token expires at")
		reconcile()
		assert.Equal(t, []time.Duration{3 * time.Hour}, asked, "attempts have pauses between them")

		refusal = nil
		for want, given := range map[string]string{
			"it is not a token of a service account":  "<html>",
			"is for another account, or expires no ":  tokenFor(t, "system:serviceaccount:a:b", jwt.NewNumericDate(time.Now()), jwt.NewNumericDate(time.Now().Add(time.Hour*9))),
			"for another account, or expires no late": token,
		} {
			time.Sleep(20 * time.Minute)
			answer = given
			assert.Contains(t, reconcile().Message, want)
		}
		time.Sleep(20 * time.Minute)
		answer = forHours(t, 3)
		assert.Equal(t, metav1.ConditionTrue, reconcile().Status)
		got, err := client.Resource(secrets).Namespace("clusters").Get(t.Context(), "east", metav1.GetOptions{})
		require.NoError(t, err)
		data, _, _ := unstructured.NestedStringMap(got.Object, "data")
		assert.Equal(t, map[string]string{"ca": "Y2E=", "token": base64.StdEncoding.EncodeToString([]byte(answer))}, data)

		all.forget("east")
		var status v1alpha2.ClusterStatus
		all.setCondition(&status, &v1alpha2.PediaCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}})
		assert.Empty(t, status.Conditions)
		all.group.Wait()
	})
}

// TestAClusterWhoseTokensExpireAtOnceGetsFewRenewals is a lie: each token is due when it is made.
func TestAClusterWhoseTokensExpireAtOnceGetsFewRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{secrets: "SecretList"},
			secret("east", "", map[string]any{}))
		all := newRenewals(client)
		expires := time.Now()
		token := func() string {
			expires = expires.Add(time.Second)
			return tokenFor(t, robot, jwt.NewNumericDate(expires.Add(-time.Hour)), jwt.NewNumericDate(expires))
		}
		asked := 0
		by := maker(func(time.Duration) (string, error) {
			asked++
			return token(), nil
		})
		now := token()
		for range 600 { // a pass a second
			all.keep(t.Context(), "east", by, storedToken{secret: *key("east", "token"), namespace: "clusters", token: now})
			synctest.Wait()
			got, err := client.Resource(secrets).Namespace("clusters").Get(t.Context(), "east", metav1.GetOptions{})
			require.NoError(t, err)
			if text, _, _ := unstructured.NestedString(got.Object, "data", "token"); text != "" {
				stored, err := base64.StdEncoding.DecodeString(text)
				require.NoError(t, err)
				now = string(stored)
			}
			time.Sleep(time.Second)
		}
		assert.Greater(t, asked, 1)
		assert.LessOrEqual(t, asked, 11, "in ten minutes")
		all.group.Wait()
	})
}
