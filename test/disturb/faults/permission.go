// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/test/framework"
)

const (
	// reader is the name of the user, and of the ClusterRole that it gets and loses.
	reader = "faults-reader"
	// askInterval is the time between two requests for each resource at each server.
	askInterval = 200 * time.Millisecond
	// tokenCache is how long kube-apiserver and Tripod accept a token without asking again.
	tokenCache = 10 * time.Second
	// identityGrace is how long an aggregator accepts known tokens after it has lost every core replica.
	identityGrace = 30 * time.Second
	// newsWithin is how long a service waits on a silent connection for changes. It sends a ping after 30 s, and closes the connection 15 s later.
	newsWithin = 45 * time.Second
	// validFor is how long the certificate that expires during each fault is valid.
	validFor = before + revokeAfter + time.Second
	// temporary is the user of that certificate.
	temporary = "faults-temporary"
)

// Ways to send a request: the resource, and the credentials.
const (
	byRight       = "right"
	byCustomRight = "custom right"
	byToken       = "token"
	byCertificate = "certificate"
)

// revocation has a user and a ServiceAccount token, whose rights end during a fault, and another user whose certificate expires.
type revocation struct {
	cluster  *cluster
	name     string
	admin    kubernetes.Interface
	token    string
	expiring *http.Client
	askers   sync.WaitGroup
	stop     context.CancelFunc

	mu sync.Mutex
	// revoked is when the end of the rights was acknowledged, by way.
	revoked map[string]time.Time
	// allowed is when the last request that succeeded was sent, by way, and by server and way.
	allowed map[string]time.Time
	// denied has the servers and ways that have rejected a request since.
	denied map[string]bool
}

// prepare creates what all loads and revocations need.
func (c *cluster) prepare(ctx context.Context) error {
	admin, err := kubernetes.NewForConfig(c.admin())
	if err != nil {
		return err
	}
	if err := c.define(ctx); err != nil {
		return err
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: reader}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"", "example.com"}, Resources: []string{"configmaps", custom.Plural}, Verbs: []string{"get"}},
	}}
	_, err = admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if _, err := admin.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := bind(ctx, admin, "accounts", rbacv1.GroupKind, "system:serviceaccounts:"+namespace); err != nil {
		return err
	}
	if err := bind(ctx, admin, temporary, rbacv1.UserKind, temporary); err != nil {
		return err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	_, err = admin.CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{})
	return err
}

// define creates the CRD, and waits until the custom resource is served.
func (c *cluster) define(ctx context.Context) error {
	client, err := apiextensions.NewForConfigAndClient(c.admin(), c.administrator)
	if err != nil {
		return err
	}
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal([]byte(framework.CRD{Kind: custom.Kind, Schema: framework.Data}.String()), &definition); err != nil {
		return err
	}
	if _, err := client.ApiextensionsV1().CustomResourceDefinitions().Create(ctx, &definition, metav1.CreateOptions{}); err != nil {
		return err
	}
	return framework.Poll(ctx, "the custom resource is served", func(ctx context.Context) error {
		for _, server := range c.urls {
			if err := ok(c.direct, server+custom.Collection(namespace))(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

func bind(ctx context.Context, admin kubernetes.Interface, name, kind, subject string) error {
	_, err := admin.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: reader},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: kind, Name: subject}},
	}, metav1.CreateOptions{})
	return err
}

// newToken returns a token of a ServiceAccount.
func (c *cluster) newToken(ctx context.Context, account string) (string, error) {
	admin, err := kubernetes.NewForConfigAndClient(c.admin(), c.administrator)
	if err != nil {
		return "", err
	}
	answer, err := admin.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return answer.Status.Token, nil
}

var errDenied = errors.New("denied")

// ask sends a GET, with a token if it is not empty. It returns errDenied for 401 and 403. A missing object is no error.
func ask(ctx context.Context, client *http.Client, server, token, path string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server+path, nil)
	if err != nil {
		return err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	body, err := io.ReadAll(resp.Body)
	switch resp.StatusCode {
	case http.StatusOK, http.StatusNotFound:
		return err
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%w: %s", errDenied, body)
	}
	return fmt.Errorf("status %d: %s", resp.StatusCode, body)
}

// startRevocation grants the rights, and waits until they apply everywhere. If the fault replaces an authority, the old one issues the certificate.
func (c *cluster) startRevocation(ctx context.Context, number int, replaces string) (*revocation, error) {
	admin, err := kubernetes.NewForConfigAndClient(c.admin(), c.administrator)
	if err != nil {
		return nil, err
	}
	r := &revocation{
		cluster: c, name: fmt.Sprintf("user-%d", number), admin: admin,
		revoked: map[string]time.Time{}, allowed: map[string]time.Time{}, denied: map[string]bool{},
	}
	// A connection that was not used since the last fault may be broken.
	if err := framework.Poll(ctx, "rights are given", r.give); err != nil {
		return nil, err
	}
	for _, server := range c.urls {
		for _, way := range []string{byRight, byCustomRight, byToken} {
			if err := framework.Poll(ctx, "rights are in force", func(ctx context.Context) error { return r.ask(ctx, server, way) }); err != nil {
				return nil, err
			}
		}
	}
	if err := r.certify(replaces); err != nil {
		return nil, err
	}
	asking, stop := context.WithCancel(context.WithoutCancel(ctx))
	r.stop = stop
	for _, server := range c.urls {
		for _, way := range ways {
			r.askers.Go(func() { r.keepAsking(asking, server, way) })
		}
	}
	return r, nil
}

// certify gives the user a certificate that will become invalid.
func (r *revocation) certify(replaces string) error {
	authority, name, expires := "ca", temporary, time.Now().Add(validFor).Truncate(time.Second)
	switch replaces {
	case "":
		r.revoked[byCertificate] = expires
	case frontProxyCA:
		authority, name, expires = frontProxyCA, "front-proxy-client", time.Now().Add(time.Hour)
	default:
		expires = time.Now().Add(time.Hour)
	}
	config, err := r.cluster.certified(authority, name, expires)
	if err != nil {
		return err
	}
	r.expiring = &http.Client{Transport: newTransport(config, impatient)}
	if replaces == frontProxyCA {
		r.expiring.Transport = speakingFor{user: temporary, next: r.expiring.Transport}
	}
	return nil
}

// end records when the certificate became invalid, if not by expiry.
func (r *revocation) end(at time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.revoked[byCertificate] = at
	if refused := at.Sub(r.allowed[byCertificate]); refused > requestTimeout {
		return fmt.Errorf("a certificate was refused for %s before its end", seconds(refused))
	}
	return nil
}

// give grants the rights. It may run again.
func (r *revocation) give(ctx context.Context) (err error) {
	if err := bind(ctx, r.admin, r.name, rbacv1.UserKind, reader); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: r.name}}
	_, err = r.admin.CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	r.token, err = r.cluster.newToken(ctx, r.name)
	return err
}

var ways = []string{byRight, byCustomRight, byToken, byCertificate}

func (r *revocation) ask(ctx context.Context, server, way string) error {
	configMap := "/api/v1/namespaces/" + namespace + "/configmaps/none"
	switch way {
	case byToken:
		return ask(ctx, r.cluster.anonymous, server, r.token, configMap)
	case byCustomRight:
		return ask(ctx, r.cluster.user, server, "", custom.Path(namespace, "none"))
	case byCertificate:
		return ask(ctx, r.expiring, server, "", configMap)
	}
	return ask(ctx, r.cluster.user, server, "", configMap)
}

func (r *revocation) keepAsking(ctx context.Context, server, way string) {
	for tick := time.NewTicker(askInterval); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
		began := time.Now()
		err := r.ask(ctx, server, way)
		r.mu.Lock()
		switch {
		case err == nil && began.After(r.allowed[way]):
			r.allowed[way] = began
			delete(r.denied, server+way)
		case err == nil:
			delete(r.denied, server+way)
		case errors.Is(err, errDenied):
			r.denied[server+way] = true
		}
		r.mu.Unlock()
	}
}

// revoke takes the rights away, and retries until that is acknowledged.
func (r *revocation) revoke(ctx context.Context) {
	steps := map[string]func() error{
		byRight: func() error {
			return r.admin.RbacV1().RoleBindings(namespace).Delete(ctx, r.name, metav1.DeleteOptions{})
		},
		byToken: func() error {
			return r.admin.CoreV1().ServiceAccounts(namespace).Delete(ctx, r.name, metav1.DeleteOptions{})
		},
	}
	var revoking sync.WaitGroup
	defer revoking.Wait()
	for way, step := range steps {
		revoking.Go(func() {
			for ctx.Err() == nil {
				if err := step(); err == nil || apierrors.IsNotFound(err) {
					r.mu.Lock()
					r.revoked[way] = time.Now()
					r.mu.Unlock()
					return
				}
				select {
				case <-ctx.Done():
				case <-time.After(askInterval):
				}
			}
		})
	}
}

// over reports whether all servers have rejected everything revoked.
func (r *revocation) over() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.denied) == len(ways)*len(r.cluster.urls) && len(r.revoked) == 3
}

// ended returns when the end of a right was acknowledged, or zero.
func (r *revocation) ended(way string) time.Time {
	if way == byCustomRight {
		way = byRight
	}
	return r.revoked[way]
}

// finish returns how long after the acknowledgement the last successful request was sent, by way.
func (r *revocation) finish() map[string]time.Duration {
	r.stop()
	r.askers.Wait()
	r.expiring.CloseIdleConnections()
	r.mu.Lock()
	defer r.mu.Unlock()
	stale := map[string]time.Duration{}
	for _, way := range ways {
		revoked := r.ended(way)
		if !revoked.IsZero() {
			stale[way] = max(0, r.allowed[way].Sub(revoked))
		}
	}
	return stale
}
