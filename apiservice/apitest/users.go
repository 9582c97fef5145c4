// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/base/certs"
)

// users makes client certificates.
type users struct {
	mu        sync.Mutex
	store     *certs.Store
	authority *certs.Authority
	// made is how many certificates there are.
	made int
}

// open makes dir, with a copy of the client CA of the instance.
func (u *users) open(dir, pki string) error {
	store, err := certs.Open(dir)
	if err != nil {
		return err
	}
	for _, name := range []string{"ca.crt", "ca.key"} {
		content, err := os.ReadFile(filepath.Join(pki, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	u.store = store
	u.authority, err = store.Authority("ca", "")
	return err
}

// User returns how a user reaches the API: with a client certificate for that name and these groups. Nothing is allowed to new users, but
// for what RBAC allows to system:authenticated, such as discovery. [API.Allow] allows more.
func (a *API) User(name string, groups ...string) *rest.Config {
	a.t.Helper()
	a.users.mu.Lock()
	defer a.users.mu.Unlock()
	a.users.made++
	file := fmt.Sprintf("user-%d", a.users.made)
	if _, err := a.users.authority.Ensure(file, certs.Leaf{CommonName: name, Organizations: groups, Client: true}); err != nil {
		a.t.Fatalf("apitest: user %s: %v", name, err)
	}
	config := rest.AnonymousClientConfig(a.admin)
	config.CertFile, config.KeyFile = a.users.store.CertFile(file), a.users.store.KeyFile(file)
	return config
}

// Allow lets a user do what the rules say in all namespaces, by a ClusterRole and a ClusterRoleBinding. It returns when the API knows.
func (a *API) Allow(user string, rules ...rbacv1.PolicyRule) {
	a.t.Helper()
	if err := a.allow(user, rules); err != nil {
		a.t.Fatalf("apitest: allow %s: %v", user, err)
	}
}

func (a *API) allow(user string, rules []rbacv1.PolicyRule) error {
	client, err := kubernetes.NewForConfig(a.admin)
	if err != nil {
		return err
	}
	ctx, meta := a.t.Context(), metav1.ObjectMeta{GenerateName: "apitest-"}
	role, err := client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return a.awaitRules(client, user, rules)
}

// awaitRules waits until the policy in force allows the first of what each rule names.
func (a *API) awaitRules(client kubernetes.Interface, user string, rules []rbacv1.PolicyRule) error {
	for _, rule := range rules {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user}}
		if len(rule.NonResourceURLs) > 0 {
			review.Spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Verb: rule.Verbs[0], Path: rule.NonResourceURLs[0]}
		} else {
			resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
			review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
				Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: resource, Subresource: subresource,
			}
			if len(rule.ResourceNames) > 0 {
				review.Spec.ResourceAttributes.Name = rule.ResourceNames[0]
			}
		}
		if err := a.wait(interval, func(ctx context.Context) error {
			answer, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
			if err == nil && !answer.Status.Allowed {
				err = errors.New("it is not in force")
			}
			return err
		}); err != nil {
			return fmt.Errorf("rule %v: %w", rule, err)
		}
	}
	return nil
}
