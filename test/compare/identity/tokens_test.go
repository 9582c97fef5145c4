// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/keyutil"
)

// token is a bearer token that a client may show.
type token struct {
	name string
	// good is set if it is the token of a user.
	good bool
	// make returns the token for a cluster.
	make func(context.Context, *side) (string, error)
}

// tokens are of all kinds that kube-apiserver knows.
var tokens = []token{
	good("static", fixed("static-token-1")),
	good("static without groups", fixed("static-token-2")),
	good("bootstrap", fixed(bootstrapID+"."+bootstrapSecret)),
	good("service account", requested("robot", nil)),
	good("service account, bound to a pod", requested("robot", &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "pod"})),
	good("service account, bound to a secret", requested("robot", &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret", Name: "bound"})),
	good("service account, bound to a node", requested("robot", &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: "node-1"})),
	good("service account, for this API and others", requested("robot", nil, "vault", "https://kubernetes.default.svc.cluster.local")),
	good("service account, of a secret", legacy("robot", "legacy")),
	good("OpenID Connect", plain(map[string]any{"groups": []string{"g1", "g2"}})),
	good("OpenID Connect without groups", plain(nil)),
	good("OpenID Connect for several audiences", plain(map[string]any{"aud": []string{"a", "tripod-test"}})),
	good("OpenID Connect by expressions", expressive(nil)),
	good("OpenID Connect by expressions for the other audience", expressive(map[string]any{
		"aud": "tripod-other", "tenant": []string{"t1", "", "t1"}, "shoe": []string{"ö", " left ", "%2f"},
	})),
	good("webhook", fixed("webhook-token-1")),
	good("webhook with everything that is odd", fixed("webhook-token-2")),

	bad("of nobody", fixed("of-nobody")),
	bad("with dots", fixed("not.a.token")),
	bad("bootstrap with another secret", fixed(bootstrapID+".fedcba9876543210")),
	bad("bootstrap of nobody", fixed("nobody.0123456789abcdef")),
	bad("bootstrap, expired", fixed("expire."+bootstrapSecret)),
	bad("service account for others", requested("robot", nil, "vault")),
	bad("service account by another key", forged),
	bad("service account, of a missing secret", legacy("robot", "")),
	bad("service account that is gone", goneAccount),
	bad("OpenID Connect for others", plain(map[string]any{"aud": "others"})),
	bad("OpenID Connect, expired", plain(map[string]any{"exp": time.Now().Add(-time.Hour).Unix()})),
	bad("OpenID Connect, not yet valid", plain(map[string]any{"nbf": time.Now().Add(time.Hour).Unix()})),
	bad("OpenID Connect by another key", func(context.Context, *side) (string, error) {
		key, err := newKey(jose.RS256)
		if err != nil {
			return "", err
		}
		return sign(jose.RS256, key, keyID, map[string]any{
			"iss": authorities.plain.url(), "sub": "jane", "aud": "tripod-test", "exp": time.Now().Add(time.Hour).Unix(),
		})
	}),
	bad("OpenID Connect of an unknown issuer", plain(map[string]any{"iss": "https://127.0.0.1:1"})),
	bad("OpenID Connect without a tenant", expressive(map[string]any{"tenant": ""})),
	bad("OpenID Connect with a reserved group", expressive(map[string]any{"roles": []string{"system:masters"}})),
	bad("over which the webhook fails", fixed(brokenWebhookToken)),
}

func good(name string, make func(context.Context, *side) (string, error)) token {
	return token{name, true, make}
}
func bad(name string, make func(context.Context, *side) (string, error)) token {
	return token{name, false, make}
}

// webhookUsers are those whom the webhook knows from the beginning.
var webhookUsers = map[string]authenticationv1.UserInfo{
	"webhook-token-1": {Username: "wendy", UID: "uid-of-wendy", Groups: []string{"hooked"}, Extra: map[string]authenticationv1.ExtraValue{"example.com/desk": {"1"}}},
	"webhook-token-2": {
		Username: "Wanda, 50% ünique:\tüser", UID: " %2f ", Groups: []string{"b", "a", "", "a, b", "ö"},
		Extra: map[string]authenticationv1.ExtraValue{
			"Example.com/Mixed_Case": {"", "x", ""}, "example.com/mixed_case": {"y"}, "no values": {}, "%2F/ %": {"a,b", " c "}, "ключ": {"значение"},
		},
	},
}

func fixed(token string) func(context.Context, *side) (string, error) {
	return func(context.Context, *side) (string, error) { return token, nil }
}

// requested returns a function that has the cluster issue a token of a service account, for as long as the cluster
// likes.
func requested(account string, boundTo *authenticationv1.BoundObjectReference, audiences ...string) func(context.Context, *side) (string, error) {
	return func(ctx context.Context, s *side) (string, error) {
		client, err := kubernetes.NewForConfig(s.cluster.Admin())
		if err != nil {
			return "", err
		}
		request, err := client.CoreV1().ServiceAccounts("test").CreateToken(ctx, account, &authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{Audiences: audiences, BoundObjectRef: boundTo},
		}, metav1.CreateOptions{})
		if err != nil {
			return "", err
		}
		return request.Status.Token, nil
	}
}

// plain returns a function for a token of the issuer whose claims are taken as they are.
func plain(claims map[string]any) func(context.Context, *side) (string, error) {
	return func(context.Context, *side) (string, error) { return authorities.plain.token(claims) }
}

// expressive returns a function for a token of the issuer whose claims are mapped by expressions.
func expressive(claims map[string]any) func(context.Context, *side) (string, error) {
	return func(context.Context, *side) (string, error) {
		all := map[string]any{"nick": "jim", "roles": []string{"r1", "r2"}, "tenant": "t1"}
		for name, value := range claims {
			all[name] = value
		}
		return authorities.expressive.token(all)
	}
}

// legacy returns a function for a token without end, as kube-controller-manager writes it into a secret of a service
// account. Without a name of one, it names a secret that there is not.
func legacy(account, secret string) func(context.Context, *side) (string, error) {
	return func(ctx context.Context, s *side) (string, error) {
		client, err := kubernetes.NewForConfig(s.cluster.Admin())
		if err != nil {
			return "", err
		}
		object, err := client.CoreV1().ServiceAccounts("test").Get(ctx, account, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		name := secret
		if name == "" {
			name = "missing"
		}
		token, err := s.signAsCluster(map[string]any{
			"iss": "kubernetes/serviceaccount", "sub": "system:serviceaccount:test:" + account,
			"kubernetes.io/serviceaccount/namespace": "test", "kubernetes.io/serviceaccount/secret.name": name,
			"kubernetes.io/serviceaccount/service-account.name": account, "kubernetes.io/serviceaccount/service-account.uid": string(object.UID),
		})
		if err != nil || secret == "" {
			return token, err
		}
		_, err = client.CoreV1().Secrets("test").Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: secret, Annotations: map[string]string{corev1.ServiceAccountNameKey: account}},
			Type:       corev1.SecretTypeServiceAccountToken,
			StringData: map[string]string{corev1.ServiceAccountTokenKey: token},
		}, metav1.CreateOptions{})
		return token, err
	}
}

// signAsCluster returns a JWT that is signed with the cluster's own key.
func (s *side) signAsCluster(claims map[string]any) (string, error) {
	key, err := keyutil.PrivateKeyFromFile(filepath.Join(s.cluster.PKI, "sa.key"))
	if err != nil {
		return "", err
	}
	return sign(jose.RS256, key, "", claims)
}

// forged returns the token of a service account with the signature of another key.
func forged(ctx context.Context, s *side) (string, error) {
	one, err := requested("robot", nil)(ctx, s)
	if err != nil {
		return "", err
	}
	parts := strings.Split(one, ".")
	other, err := s.signAsCluster(map[string]any{"sub": "somebody"})
	if err != nil {
		return "", err
	}
	return strings.Join(append(parts[:2], other[strings.LastIndex(other, ".")+1:]), "."), nil
}

// goneAccount returns a token of a service account that is deleted, and waits until that is known.
func goneAccount(ctx context.Context, s *side) (string, error) {
	token, err := requested("doomed", nil)(ctx, s)
	if err != nil {
		return "", err
	}
	client, err := kubernetes.NewForConfig(s.cluster.Admin())
	if err != nil {
		return "", err
	}
	if err := client.CoreV1().ServiceAccounts("test").Delete(ctx, "doomed", metav1.DeleteOptions{}); err != nil {
		return "", err
	}
	return token, s.poll(ctx, "the account is gone", func(ctx context.Context) error {
		_, a, err := whoAmI(ctx, withToken(s.cluster, token))
		if err == nil && a.Code < 400 {
			err = fmt.Errorf("answer %v", a)
		}
		return err
	})
}
