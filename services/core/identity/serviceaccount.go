// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"crypto/subtle"
	"slices"

	"gopkg.in/go-jose/go-jose.v2/jwt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	serviceaccountuser "k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/kubernetes/pkg/serviceaccount"

	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

// boundClaims are the claims of pkg/serviceaccount/claims.go.
type boundClaims struct {
	Kubernetes struct {
		Namespace string     `json:"namespace"`
		Account   reference  `json:"serviceaccount"`
		Pod       *reference `json:"pod"`
		Secret    *reference `json:"secret"`
		Node      *reference `json:"node"`
		// The gate APIServerWebhookAuthenticationToken binds tokens to configurations of webhooks.
		Validating *reference `json:"validatingwebhookconfiguration"`
		Mutating   *reference `json:"mutatingwebhookconfiguration"`
	} `json:"kubernetes.io"`
}

type reference struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// legacyClaims are the claims of pkg/serviceaccount/legacy.go.
type legacyClaims struct {
	Namespace string `json:"kubernetes.io/serviceaccount/namespace"`
	Name      string `json:"kubernetes.io/serviceaccount/service-account.name"`
	UID       string `json:"kubernetes.io/serviceaccount/service-account.uid"`
	Secret    string `json:"kubernetes.io/serviceaccount/secret.name"`
}

// ofServiceAccount returns what core knows about a token that core issued for the user. It returns false for other tokens. The name of
// the user is not enough: a webhook that knows the tokens of another cluster may return the same name.
func (d *Dependencies) ofServiceAccount(t *jsonWebToken, u user.Info) (tokenFacts, bool) {
	var legacy legacyClaims
	if t.Issuer == serviceaccount.LegacyIssuer && t.parsed.UnsafeClaimsWithoutVerification(&legacy) == nil &&
		isAccount(u, legacy.Namespace, legacy.Name, legacy.UID) {
		return d.ofLegacy(t.raw, legacy), true
	}
	var bound boundClaims
	if slices.Contains(d.tokens.Issuers, t.Issuer) && t.parsed.UnsafeClaimsWithoutVerification(&bound) == nil &&
		isAccount(u, bound.Kubernetes.Namespace, bound.Kubernetes.Account.Name, bound.Kubernetes.Account.UID) {
		return d.ofBound(t, bound), true
	}
	return tokenFacts{}, false
}

func isAccount(u user.Info, namespace, name, uid string) bool {
	return uid != "" && u.GetUID() == uid && serviceaccountuser.MatchesUsername(namespace, name, u.GetName())
}

func (d *Dependencies) ofBound(t *jsonWebToken, c boundClaims) tokenFacts {
	result := tokenFacts{kind: serviceAccountToken, complete: true}
	if t.Expires != nil {
		result.endBy(t.Expires.Time().Add(jwt.DefaultLeeway))
	}
	namespace, bound := c.Kubernetes.Namespace, c.Kubernetes
	account, err := d.accounts.ServiceAccounts(namespace).Get(bound.Account.Name)
	result.dependOn(identityv1.Dependency_KIND_SERVICE_ACCOUNT, bound.Account, account, err)
	if bound.Secret != nil {
		secret, err := d.secrets.Secrets(namespace).Get(bound.Secret.Name)
		result.dependOn(identityv1.Dependency_KIND_SECRET, *bound.Secret, secret, err)
	}
	if bound.Pod != nil {
		pod, err := d.pods.Pods(namespace).Get(bound.Pod.Name)
		result.dependOn(identityv1.Dependency_KIND_POD, *bound.Pod, pod, err)
	}
	// If the token has a Pod, the node only says where the Pod ran.
	if bound.Node != nil && bound.Pod == nil {
		node, err := d.nodes.Get(bound.Node.Name)
		result.dependOn(identityv1.Dependency_KIND_NODE, *bound.Node, node, err)
	}
	// No invalidation reports the end of a configuration.
	if bound.Validating != nil || bound.Mutating != nil {
		result.complete = false
	}
	return result
}

// dependOn records that the token depends on an object, and whether the informer has the object. If an object is too new for the informer,
// the authenticator asks the API for it. If that object is deleted while the informer does not watch, no invalidation reports it.
func (f *tokenFacts) dependOn(kind identityv1.Dependency_Kind, named reference, object metav1.Object, err error) {
	f.depend(kind, named.UID)
	switch {
	case err != nil || string(object.GetUID()) != named.UID:
		f.complete = false
	case object.GetDeletionTimestamp() != nil:
		f.endBy(object.GetDeletionTimestamp().Add(jwt.DefaultLeeway))
	}
}

// ofLegacy returns what core knows about a legacy token. The token ends only with its Secret or service account, as soon as the deletion
// of either begins.
func (d *Dependencies) ofLegacy(token string, c legacyClaims) tokenFacts {
	result := tokenFacts{kind: serviceAccountToken, complete: true}
	if !d.tokens.Lookup {
		return result
	}
	account, err := d.accounts.ServiceAccounts(c.Namespace).Get(c.Name)
	result.dependOn(identityv1.Dependency_KIND_SERVICE_ACCOUNT, reference{UID: c.UID}, account, err)
	// The token contains the name of its Secret, not the UID. The Secret in the store is the right one if it contains the token.
	secret, err := d.secrets.Secrets(c.Namespace).Get(c.Secret)
	if err != nil || subtle.ConstantTimeCompare(secret.Data[corev1.ServiceAccountTokenKey], []byte(token)) != 1 {
		result.complete = false
		return result
	}
	result.dependOn(identityv1.Dependency_KIND_SECRET, reference{UID: string(secret.UID)}, secret, nil)
	if !result.ends.IsZero() {
		result.complete = false
	}
	return result
}
