// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"strings"
	"sync/atomic"
	"time"

	"gopkg.in/go-jose/go-jose.v2/jwt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"
	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"

	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

// tokenKind is the kind of a token. It follows from its user and its form.
type tokenKind int

const (
	// otherToken is a token of a file, an issuer or a webhook.
	otherToken tokenKind = iota
	serviceAccountToken
	bootstrapToken
)

// tokenFacts is what core knows about a good token.
type tokenFacts struct {
	kind         tokenKind
	dependencies []*identityv1.Dependency
	// ends is when the token expires. Zero means never.
	ends time.Time
	// complete is set if an invalidation will report the end of each dependency.
	complete bool
	// issuer is the issuer of the token. It is empty if core issued it.
	issuer string
}

// Dependencies finds the objects that tokens depend on, and reports their changes.
type Dependencies struct {
	invalidations *invalidations
	tokens        *kubeoptions.ServiceAccountAuthenticationOptions
	accounts      corelisters.ServiceAccountLister
	secrets       corelisters.SecretLister
	pods          corelisters.PodLister
	nodes         corelisters.NodeLister
	synced        []cache.InformerSynced
	// settled is the time by which core certainly uses the last change of issuers. It is nil before the first change.
	settled atomic.Pointer[time.Time]
}

// Synced returns whether all informers have received their objects once.
func (d *Dependencies) Synced() bool {
	for _, synced := range d.synced {
		if !synced() {
			return false
		}
	}
	return true
}

// factsOf returns what core knows about a good token of u. Its claims need no verification, because an authenticator has verified it.
func (d *Dependencies) factsOf(token string, u user.Info) tokenFacts {
	if strings.HasPrefix(u.GetName(), bootstrapapi.BootstrapUserPrefix) && bootstraputil.IsValidBootstrapToken(token) {
		return d.ofBootstrap(token)
	}
	result := tokenFacts{kind: otherToken, complete: true}
	c, ok := parse(token)
	if !ok {
		return result
	}
	if ofAccount, ok := d.ofServiceAccount(c, u); ok {
		return ofAccount
	}
	if c.Expires != nil {
		result.endBy(c.Expires.Time())
	}
	if c.Issuer != "" {
		result.issuer = c.Issuer
		result.depend(identityv1.Dependency_KIND_ISSUER, c.Issuer)
	}
	return result
}

func (d *Dependencies) ofBootstrap(token string) tokenFacts {
	id, _, _ := strings.Cut(token, ".")
	result := tokenFacts{kind: bootstrapToken}
	result.depend(identityv1.Dependency_KIND_BOOTSTRAP_TOKEN, id)
	secret, err := d.secrets.Secrets(metav1.NamespaceSystem).Get(bootstrapapi.BootstrapTokenSecretPrefix + id)
	if err != nil {
		return result
	}
	result.complete = true
	if expiration := string(secret.Data[bootstrapapi.BootstrapTokenExpirationKey]); expiration != "" {
		ends, err := time.Parse(time.RFC3339, expiration)
		result.ends, result.complete = ends, err == nil
	}
	return result
}

func (f *tokenFacts) depend(kind identityv1.Dependency_Kind, id string) {
	f.dependencies = append(f.dependencies, &identityv1.Dependency{Kind: kind, Id: id})
}

// endBy records that the token expires at a time or before.
func (f *tokenFacts) endBy(t time.Time) {
	if f.ends.IsZero() || t.Before(f.ends) {
		f.ends = t
	}
}

// jsonWebToken is a token with claims. An authenticator has verified them before.
type jsonWebToken struct {
	raw     string
	parsed  *jwt.JSONWebToken
	Issuer  string           `json:"iss"`
	Expires *jwt.NumericDate `json:"exp"`
}

// parse returns the claims of a token. It returns false for a token that is no JSON Web Token. It parses with the library of Kubernetes'
// authenticators (go-jose.v2), which core links anyway: a token that they accept and another parser rejects would count as one without an
// end.
func parse(token string) (*jsonWebToken, bool) {
	parsed, err := jwt.ParseSigned(token)
	if err != nil {
		return nil, false
	}
	t := &jsonWebToken{raw: token, parsed: parsed}
	if err := parsed.UnsafeClaimsWithoutVerification(t); err != nil {
		return nil, false
	}
	return t, true
}
