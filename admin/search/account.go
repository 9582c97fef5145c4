// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/tripod-k8s/tripod/services/search/apis/cluster/v1alpha2"
)

// account is the account of search in a cluster, with the login of the caller.
type account struct {
	side
	clients   kubernetes.Interface
	namespace string
	// name is that of the service account, and of all that belongs to it in both clusters.
	name string
}

// loginOf returns how the caller reaches the cluster of a context, and refuses one that search could not use.
func loginOf(config *clientcmdapi.Config, name string) (*rest.Config, error) {
	context := config.Contexts[name]
	if context == nil {
		return nil, fmt.Errorf("the kubeconfig has no context %q: kubectl config get-contexts lists them", name)
	}
	if config.Clusters[context.Cluster] == nil {
		return nil, fmt.Errorf("context %s names no cluster of the kubeconfig", name)
	}
	user := config.AuthInfos[context.AuthInfo]
	if user == nil || user.Exec == nil && user.AuthProvider == nil && user.Token == "" && user.TokenFile == "" && user.Username == "" &&
		len(user.ClientCertificateData) == 0 && user.ClientCertificate == "" {
		return nil, fmt.Errorf("context %s has no login: its user has no token, certificate or program", name)
	}
	to, err := clientcmd.NewNonInteractiveClientConfig(*config, name, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("context %s: %w", name, err)
	}
	switch {
	case to.Insecure:
		return nil, fmt.Errorf("context %s does not verify the server (insecure-skip-tls-verify): search needs its CA", name)
	case to.ServerName != "":
		return nil, fmt.Errorf("context %s expects the certificate of another host (tls-server-name), which search does not: name a server that "+
			"has a certificate for its address with --server", name)
	}
	if err := rest.LoadTLSFiles(to); err != nil {
		return nil, fmt.Errorf("context %s: %w", name, err)
	}
	if len(to.CAData) == 0 {
		return nil, fmt.Errorf("context %s has no certificate-authority: search needs the CA of the server", name)
	}
	to.Timeout = requestTime
	return to, nil
}

// requestTime bounds each request with the login of the caller.
const requestTime = 30 * time.Second

func newAccount(login *rest.Config, namespace, name, owner string, dryRun bool) (*account, error) {
	a := &account{side: side{where: "cluster", owner: owner, dryRun: dryRun}, namespace: namespace, name: name}
	var err error
	if a.clients, err = kubernetes.NewForConfig(login); err == nil {
		a.client, err = dynamic.NewForConfig(login)
	}
	return a, err
}

// create makes the account, with the right to read resources and to renew its own token. It returns what it has done, also if it fails.
func (a *account) create(ctx context.Context, resources []v1alpha2.GroupResources) (changes []*Change, err error) {
	rules, err := a.rules(resources)
	if err != nil {
		return nil, err
	}
	meta := metav1.ObjectMeta{Name: a.name}
	inNamespace := metav1.ObjectMeta{Name: a.name, Namespace: a.namespace}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: a.namespace, Name: a.name}}
	ref := func(kind string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: a.name}
	}
	renewal := []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: []string{a.name}, Verbs: []string{"create"},
	}}
	no := false
	steps := []step{
		{accountResource, &corev1.ServiceAccount{ObjectMeta: inNamespace, AutomountServiceAccountToken: &no}},
		{clusterRoleResource, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}},
		{clusterBindResource, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: ref("ClusterRole")}},
		{roleResource, &rbacv1.Role{ObjectMeta: inNamespace, Rules: renewal}},
		{bindingResource, &rbacv1.RoleBinding{ObjectMeta: inNamespace, Subjects: subjects, RoleRef: ref("Role")}},
	}
	return a.take(ctx, steps)
}

// rules let search list and watch what it copies. No wildcard lets it read Secrets.
func (a *account) rules(resources []v1alpha2.GroupResources) ([]rbacv1.PolicyRule, error) {
	groups, lists, err := a.clients.Discovery().ServerGroupsAndResources()
	if failed := (*discovery.ErrGroupDiscoveryFailed)(nil); err != nil && !errors.As(err, &failed) { // an aggregated API server is away
		return nil, fmt.Errorf("cannot ask the cluster what it has: %w", brief(err))
	}
	var core, others []string
	for _, list := range lists {
		if list.GroupVersion != "v1" {
			continue
		}
		for _, resource := range list.APIResources {
			if !strings.Contains(resource.Name, "/") && slices.Contains(resource.Verbs, "list") && resource.Name != "secrets" {
				core = append(core, resource.Name)
			}
		}
	}
	for _, group := range groups {
		if group.Name != "" && group.Name != v1alpha2.GroupVersion.Group { // PediaClusters may have credentials of other clusters
			others = append(others, group.Name)
		}
	}
	slices.Sort(core)
	slices.Sort(others)
	read := []string{"list", "watch"}
	all := []rbacv1.PolicyRule{{ // they have the columns of custom resources
		APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: read,
	}}
	for _, wanted := range resources {
		name := wanted.Resources[0]
		if name != "*" || wanted.Group != "" && wanted.Group != "*" {
			all = append(all, rbacv1.PolicyRule{APIGroups: []string{wanted.Group}, Resources: []string{name}, Verbs: read})
			continue
		}
		all = append(all, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: core, Verbs: read})
		if wanted.Group == "*" {
			all = append(all, rbacv1.PolicyRule{APIGroups: others, Resources: []string{"*"}, Verbs: read})
		}
	}
	return all, nil
}

// token makes a token of the account. The cluster may give it a shorter life.
func (a *account) token(ctx context.Context, lifetime time.Duration) (string, time.Time, error) {
	seconds := int64(lifetime / time.Second)
	made, err := a.clients.CoreV1().ServiceAccounts(a.namespace).CreateToken(ctx, a.name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds},
	}, metav1.CreateOptions{FieldManager: fieldManager})
	if err != nil {
		return "", time.Time{}, fmt.Errorf("token of service account %s/%s: %w", a.namespace, a.name, brief(err))
	}
	return made.Status.Token, made.Status.ExpirationTimestamp.Time, nil
}

// remove removes the account, and with it all of its tokens. It reports whether there was an account of this cluster.
func (a *account) remove(ctx context.Context) (removed bool, err error) {
	var failures []error
	for _, one := range []struct {
		resource  schema.GroupVersionResource
		namespace string
	}{
		{bindingResource, a.namespace}, {roleResource, a.namespace}, {clusterBindResource, ""}, {clusterRoleResource, ""},
		{accountResource, a.namespace},
	} {
		// The account comes last, so that the same command goes on if it fails before.
		if removed, err = a.side.remove(ctx, one.resource, one.namespace, a.name); err != nil {
			failures = append(failures, err)
		}
	}
	return removed, errors.Join(failures...)
}

// nameOfAccount is the name of all that belongs to a cluster. hub is the UID of a namespace of the hub: two hubs may copy one cluster.
func nameOfAccount(hub, cluster string) string {
	return "tripod-search-" + cmp.Or(hub[:min(len(hub), 8)], "hub") + "-" + cluster
}
