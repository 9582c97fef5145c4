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

// tokenKind is what is known of a token from its user and its form.
type tokenKind int

const (
	// otherToken is of a file, an issuer or a webhook.
	otherToken tokenKind = iota
	serviceAccountToken
	bootstrapToken
)

// found is what is known of a good token.
type found struct {
	kind         tokenKind
	dependencies []*identityv1.Dependency
	// ends is when it ends by itself. Zero is never.
	ends time.Time
	// complete is whether an invalidation will tell of every object that it depends on.
	complete bool
	// issuer is who issued it, if somebody else than core.
	issuer string
}

// Dependencies knows what tokens depend on, and hears of changes.
type Dependencies struct {
	invalidations *invalidations
	tokens        *kubeoptions.ServiceAccountAuthenticationOptions
	accounts      corelisters.ServiceAccountLister
	secrets       corelisters.SecretLister
	pods          corelisters.PodLister
	nodes         corelisters.NodeLister
	synced        []cache.InformerSynced
	// settled is when core has certainly taken over the last change of issuers. It is nil before the first.
	settled atomic.Pointer[time.Time]
}

// Synced reports whether the objects that tokens depend on were all received once.
func (d *Dependencies) Synced() bool {
	for _, synced := range d.synced {
		if !synced() {
			return false
		}
	}
	return true
}

// of returns what is known of a token that is good and u's. So its claims need no verification.
func (d *Dependencies) of(token string, u user.Info) found {
	if strings.HasPrefix(u.GetName(), bootstrapapi.BootstrapUserPrefix) && bootstraputil.IsValidBootstrapToken(token) {
		return d.ofBootstrap(token)
	}
	result := found{kind: otherToken, complete: true}
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

func (d *Dependencies) ofBootstrap(token string) found {
	id, _, _ := strings.Cut(token, ".")
	result := found{kind: bootstrapToken}
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

func (f *found) depend(kind identityv1.Dependency_Kind, id string) {
	f.dependencies = append(f.dependencies, &identityv1.Dependency{Kind: kind, Id: id})
}

// endBy says that it ends at a time, or before.
func (f *found) endBy(t time.Time) {
	if f.ends.IsZero() || t.Before(f.ends) {
		f.ends = t
	}
}

// jsonWebToken is a token with claims, which are not verified here.
type jsonWebToken struct {
	raw     string
	parsed  *jwt.JSONWebToken
	Issuer  string           `json:"iss"`
	Expires *jwt.NumericDate `json:"exp"`
}

// parse returns the token if it has claims.
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
