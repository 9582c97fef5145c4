// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pediaclusters

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/services/search/apis/cluster/v1alpha2"
	"github.com/tripod-k8s/tripod/services/search/parties"
)

const (
	// renewAfter is the part of its lifetime after which a token is renewed: search may be away for the others.
	renewAfter = 3
	// minLifetime is the shortest lifetime that API servers accept in a request for a token.
	minLifetime = 10 * time.Minute
	// renewalTime bounds one attempt.
	renewalTime = 30 * time.Second
)

// renewalPauses are between attempts to renew a token.
func renewalPauses() wait.Backoff {
	return wait.Backoff{Duration: time.Minute, Factor: 2, Jitter: 0.2, Steps: 6, Cap: 15 * time.Minute}
}

// storedToken is a token in a Secret that lets search renew it.
type storedToken struct {
	secret v1alpha2.SecretKey
	// namespace and version are those of the Secret.
	namespace, version string
	token              string
}

// renewable returns the token of a cluster if the Secret that has it lets search renew it, or nil. Call it if resolve has let the cluster
// use the Secret.
func (c *credentials) renewable(party parties.Party, spec *v1alpha2.ClusterSpec) *storedToken {
	from := spec.AuthenticationFrom
	own := len(spec.Kubeconfig) > 0 || len(spec.TokenData) > 0 || len(spec.CertData) > 0 && len(spec.KeyData) > 0
	if own || from == nil || from.Kubeconfig != nil || from.Token == nil || c.namespace == "" {
		return nil
	}
	secret, err := c.objects.OneFor(party, secrets, c.namespace, from.Token.Name)
	if err != nil || secret.GetAnnotations()[v1alpha2.RenewAnnotation] != "true" {
		return nil
	}
	text, _, _ := unstructured.NestedString(secret.Object, "data", from.Token.Key)
	token, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	return &storedToken{secret: *from.Token, namespace: c.namespace, version: secret.GetResourceVersion(), token: string(token)}
}

// account is what a token says about itself. Only the cluster that has made the token can say whether that is true, and nothing else gets
// the token.
type account struct {
	namespace, name string
	issued, expires time.Time
}

// signatures are the algorithms that API servers sign tokens with, themselves or by an external signer (KEP-740).
var signatures = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// accountOf reads a token of a service account.
func accountOf(token string) (*account, error) {
	parsed, err := jwt.ParseSigned(token, signatures)
	if err != nil {
		return nil, errors.New("it is not a token of a service account")
	}
	var claims jwt.Claims
	if err := parsed.UnsafeClaimsWithoutVerification(&claims); err != nil {
		return nil, errors.New("it is not a token of a service account")
	}
	a := &account{}
	if a.namespace, a.name, err = serviceaccount.SplitUsername(claims.Subject); err != nil {
		return nil, errors.New("it is not a token of a service account")
	}
	if claims.IssuedAt == nil || claims.Expiry == nil {
		return nil, errors.New("it does not expire")
	}
	a.issued, a.expires = claims.IssuedAt.Time(), claims.Expiry.Time()
	return a, nil
}

func (a *account) lifetime() time.Duration { return a.expires.Sub(a.issued) }

// due is when to renew the token.
func (a *account) due() time.Time { return a.issued.Add(a.lifetime() / renewAfter) }

// requester makes tokens: a member.
type requester interface {
	RequestToken(ctx context.Context, namespace, account string, lifetime time.Duration) (string, error)
}

// renewals keep tokens from expiring. A new token gets into its Secret, from where search reads it as any other.
type renewals struct {
	client dynamic.Interface
	group  wait.Group

	mu sync.Mutex
	of map[string]*renewal
}

// renewal is that of one token.
type renewal struct {
	storedToken
	*account
	pauses wait.Backoff
	// earliest is when the next attempt may be, also for another token of the cluster.
	earliest time.Time
	going    bool
	// failure is why the last attempt failed, or nil.
	failure error
}

func newRenewals(client dynamic.Interface) *renewals {
	return &renewals{client: client, of: map[string]*renewal{}}
}

// renew renews the token of a cluster when that is due. One replica does that for all that copy the cluster.
func (m *Controller) renew(ctx context.Context, cluster *v1alpha2.PediaCluster) {
	r := m.running[cluster.Name]
	var stored *storedToken
	if r.Member != nil && m.shards.Mine(cluster.Name) {
		stored = m.credentials.renewable(r.party, &cluster.Spec)
	}
	if stored == nil {
		m.renewals.forget(cluster.Name)
		return
	}
	m.renewals.keep(ctx, cluster.Name, r.Member, *stored)
}

func (all *renewals) forget(cluster string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.of, cluster)
}

// keep renews a token if that is due, beside all else.
func (all *renewals) keep(ctx context.Context, cluster string, by requester, stored storedToken) {
	all.mu.Lock()
	defer all.mu.Unlock()
	one := all.of[cluster]
	if one != nil && one.going {
		return // the Secret may have the new token already
	}
	if one == nil || one.token != stored.token || one.secret != stored.secret {
		former := one
		one = &renewal{pauses: renewalPauses()}
		one.account, one.failure = accountOf(stored.token)
		// The cluster says when its tokens expire. One that lies would have search write the Secret all the time.
		if former != nil {
			one.earliest = former.earliest
		}
		all.of[cluster] = one
	}
	one.storedToken = stored
	if now := time.Now(); one.account == nil || now.Before(one.due()) || now.Before(one.earliest) {
		return
	}
	one.going = true
	all.group.Start(func() {
		err := all.attempt(ctx, by, stored, one.account)
		all.mu.Lock()
		defer all.mu.Unlock()
		one.going, one.failure, one.earliest = false, err, time.Now().Add(one.pauses.Step())
		if err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "Cannot renew the token of a cluster", "cluster", cluster, "expires", one.expires)
		}
	})
}

// attempt has a cluster make a token, and puts it into the Secret if this is as it was.
func (all *renewals) attempt(ctx context.Context, by requester, stored storedToken, former *account) error {
	ctx, cancel := context.WithTimeout(ctx, renewalTime)
	defer cancel()
	token, err := by.RequestToken(ctx, former.namespace, former.name, max(former.lifetime(), minLifetime))
	if err != nil {
		return err
	}
	made, err := accountOf(token)
	if err != nil {
		return fmt.Errorf("the cluster has made another token than it should: %w", err)
	}
	if made.namespace != former.namespace || made.name != former.name || !made.expires.After(former.expires) {
		return errors.New("the cluster has made a token that is for another account, or expires no later")
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": stored.version},
		"data":     map[string][]byte{stored.secret.Key: []byte(token)},
	})
	if err != nil {
		return err
	}
	_, err = all.client.Resource(secrets).Namespace(stored.namespace).Patch(ctx, stored.secret.Name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: "tripod-search"})
	return err
}

// setCondition says whether the token of a cluster is renewed. A cluster whose token search does not renew has no such condition.
func (all *renewals) setCondition(status *v1alpha2.ClusterStatus, cluster *v1alpha2.PediaCluster) {
	all.mu.Lock()
	defer all.mu.Unlock()
	one := all.of[cluster.Name]
	if one == nil {
		meta.RemoveStatusCondition(&status.Conditions, v1alpha2.TokenRenewed)
		return
	}
	is := metav1.Condition{
		Type: v1alpha2.TokenRenewed, Status: metav1.ConditionTrue, Reason: "Renewed", ObservedGeneration: cluster.Generation,
	}
	if one.account != nil {
		is.Message = "the token expires at " + one.expires.UTC().Format(time.RFC3339)
	}
	if one.failure != nil {
		is.Status, is.Reason = metav1.ConditionFalse, "RenewalFails"
		is.Message = fmt.Sprintf("search cannot renew the token in secret %s/%s: %v; %s; tripod search clusters add --context makes a new one",
			one.storedToken.namespace, one.secret.Name, one.failure, cmp.Or(is.Message, "the token stays as it is"))
	}
	is.Message = is.Message[:min(len(is.Message), maxMessage)]
	meta.SetStatusCondition(&status.Conditions, is)
}
