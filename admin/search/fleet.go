// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/tripod-k8s/tripod/services/search/apis/cluster/v1alpha2"
)

// Annotations of a PediaCluster that tripod search clusters add has made.
const (
	// contextAnnotation is the context of the caller, by which remove finds the cluster.
	contextAnnotation = "tripod-k8s.io/context"
	// accountAnnotation is the service account in the cluster, as NAMESPACE/NAME.
	accountAnnotation = "tripod-k8s.io/account"
	// loginAnnotation is the server of that context.
	loginAnnotation = "tripod-k8s.io/login-server"
)

// Keys of the Secret with the credentials of search.
const (
	authorityKey = "ca.crt"
	tokenKey     = "token"
)

const (
	// maxName bounds names of clusters: those of objects that belong to one are longer.
	maxName = 200
	// waitTimeout is how long search may take to read a new Secret, and the role that lets it.
	waitTimeout = 30 * time.Second
	// searchUser is the user as which search reads Secrets.
	searchUser = "system:tripod:search"
)

// Bounds of the lifetime of a token. The shortest is that of Kubernetes. Clusters may shorten it.
const (
	shortestLifetime = 10 * time.Minute
	longestLifetime  = 365 * 24 * time.Hour
)

// Fleet adds clusters by contexts of the caller's kubeconfig: search gets an account of its own in each.
type Fleet struct {
	// Config has the contexts, and Hub reaches the cluster that search is part of.
	Config *clientcmdapi.Config
	Hub    *rest.Config
	// Contexts are those of the clusters, as CONTEXT or NAME=CONTEXT.
	Contexts []string
	// Name is that of the only cluster, or empty. Server is the address by which search reaches it, if that is not the caller's.
	Name, Server string
	// Namespace is that of the service accounts, and SecretNamespace that of the Secrets in the hub, which search has to know.
	Namespace, SecretNamespace string
	// Lifetime is that of tokens.
	Lifetime time.Duration
	// Resources are what to copy, as RESOURCE or RESOURCE.GROUP.
	Resources []string
	// DryRun changes nothing. Wait is whether to wait until the objects are copied.
	DryRun, Wait bool
	// Progress prints the progress of the command.
	Progress func(string)

	hub side
	// hubUID identifies the hub.
	hubUID string
}

// Added is what tripod search clusters add -o json prints of a cluster.
type Added struct {
	Name    string `json:"name"`
	Context string `json:"context"`
	Server  string `json:"server"`
	// Account is that of search in the cluster, and Secret has its token in the hub. Both are NAMESPACE/NAME.
	Account string `json:"serviceAccount"`
	Secret  string `json:"secret"`
	// Expires is when the first token expires. Search renews it before.
	Expires *metav1.Time `json:"tokenExpires,omitempty"`
	DryRun  bool         `json:"dryRun,omitempty"`
	Changes []*Change    `json:"changes"`
	// Error is why the cluster is not added, or not copied yet.
	Error string `json:"error,omitempty"`

	login *rest.Config
}

// Plan reads the contexts, and refuses what cannot be added before anything is changed.
func (f *Fleet) Plan() ([]*Added, error) {
	if f.Lifetime < shortestLifetime || f.Lifetime > longestLifetime {
		return nil, fmt.Errorf("--token-lifetime %s: write %s to %s", f.Lifetime, shortestLifetime, longestLifetime)
	}
	if len(f.Contexts) > 1 && (f.Name != "" || f.Server != "") {
		return nil, errors.New("NAME and --server are for one --context: write --context NAME=CONTEXT for several")
	}
	var all []*Added
	var failures []error
	for _, text := range f.Contexts {
		name, context := text, text
		if f.Config.Contexts[text] == nil {
			if before, after, found := strings.Cut(text, "="); found {
				name, context = before, after
			}
		}
		name = cmp.Or(f.Name, name)
		if len(validation.IsDNS1123Subdomain(name)) > 0 || len(name) > maxName {
			failures = append(failures, fmt.Errorf("%q cannot be the name of a cluster (letters, digits, dots and dashes): write --context NAME=%s",
				name, context))
			continue
		}
		if slices.ContainsFunc(all, func(one *Added) bool { return one.Name == name }) {
			failures = append(failures, fmt.Errorf("two contexts have the name %s: write --context NAME=%s", name, context))
			continue
		}
		login, err := loginOf(f.Config, context)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		if server := cmp.Or(f.Server, login.Host); !strings.HasPrefix(server, "https://") {
			failures = append(failures, fmt.Errorf("context %s is at %s: search needs https://HOST:PORT", context, server))
			continue
		}
		all = append(all, &Added{Name: name, Context: context, Server: cmp.Or(f.Server, login.Host), DryRun: f.DryRun, login: login})
	}
	return all, errors.Join(failures...)
}

// Add adds clusters. One that fails leaves nothing behind, and keeps no other from being added.
func (f *Fleet) Add(ctx context.Context, all []*Added) error {
	if err := f.findHub(ctx); err != nil {
		return err
	}
	var failures []error
	for _, one := range all {
		if err := f.add(ctx, one); err != nil {
			err = fmt.Errorf("%s (context %s) is not added: %w", one.Name, one.Context, err)
			one.Error = err.Error()
			failures = append(failures, err)
		}
	}
	if f.Wait && !f.DryRun {
		for _, one := range all {
			if one.Error == "" {
				failures = append(failures, f.await(ctx, one))
			}
		}
	}
	return errors.Join(failures...)
}

// findHub returns an error if the hub is none.
func (f *Fleet) findHub(ctx context.Context) error {
	client, err := dynamic.NewForConfig(f.Hub)
	if err != nil {
		return err
	}
	f.hub = side{where: "hub", client: client, dryRun: f.DryRun}
	if _, err := client.Resource(clusterResource).List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
		return withoutSearch(err)
	}
	namespace, err := client.Resource(namespaceResource).Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("hub: %w", brief(err))
	}
	f.hubUID = string(namespace.GetUID())
	return nil
}

var clusterResource = v1alpha2.GroupVersion.WithResource("pediaclusters")

func ownerOfObjects(hubUID, cluster string) string { return hubUID + "/" + cluster }

// add adds a cluster. It takes back what it has done if it fails.
func (f *Fleet) add(ctx context.Context, one *Added) (err error) {
	if err := f.mayHaveName(ctx, one); err != nil {
		return err
	}
	owner, name := ownerOfObjects(f.hubUID, one.Name), nameOfAccount(f.hubUID, one.Name)
	hub := f.hub
	hub.owner = owner
	account, err := newAccount(one.login, f.Namespace, name, owner, f.DryRun)
	if err != nil {
		return err
	}
	one.Account, one.Secret = f.Namespace+"/"+name, f.SecretNamespace+"/"+name
	f.Progress(one.Name + ": creating an account for search, with the login of context " + one.Context)
	defer func() {
		if err != nil {
			err = withLeft(err, undo(ctx, one.Changes))
		}
	}()
	changes, err := account.create(ctx, groupResources(f.Resources))
	one.Changes = changes
	if err != nil {
		return err
	}
	var token string
	if f.DryRun {
		err = account.mayCreate(ctx, accountResource, "token", f.Namespace, name)
	} else {
		var expires time.Time
		token, expires, err = account.token(ctx, f.Lifetime)
		one.Expires = &metav1.Time{Time: expires}
	}
	if err != nil {
		return err
	}
	if err := f.ensureNamespace(ctx); err != nil {
		return fmt.Errorf("namespace %s of the hub: %w", f.SecretNamespace, brief(err))
	}
	changes, err = hub.take(ctx, f.stepsOfHub(one, name, token))
	one.Changes = append(one.Changes, changes...)
	if err != nil {
		return err
	}
	change, err := f.putCluster(ctx, &hub, one, name)
	if err != nil {
		return err
	}
	one.Changes = append(one.Changes, change)
	return nil
}

// mayHaveName refuses the name of a PediaCluster that this command has not made of the same cluster.
func (f *Fleet) mayHaveName(ctx context.Context, one *Added) error {
	has, err := f.hub.client.Resource(clusterResource).Get(ctx, one.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return brief(err)
	}
	c, err := pediaClusterOf(has)
	if err != nil {
		return err
	}
	if has.GetAnnotations()[accountAnnotation] == "" || c.Spec.APIServer != one.Server {
		return alreadyExists(one.Name)
	}
	return nil
}

// stepsOfHub are a Secret with the credentials, and the right of search to read it and to renew the token in it.
func (f *Fleet) stepsOfHub(one *Added, name, token string) []step {
	meta := metav1.ObjectMeta{Name: name, Namespace: f.SecretNamespace}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: f.SecretNamespace, Annotations: map[string]string{
			v1alpha2.SecretAnnotation: one.Name + "=" + one.Server, v1alpha2.RenewAnnotation: "true",
		}},
		Data: map[string][]byte{authorityKey: one.login.CAData, tokenKey: []byte(token)},
	}
	return []step{
		{roleResource, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{name}, Verbs: []string{"get", "list", "watch", "patch"},
		}}}},
		{bindingResource, &rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: searchUser}},
		}},
		{secretResource, secret},
	}
}

// ensureNamespace creates the namespace of Secrets if it does not exist.
func (f *Fleet) ensureNamespace(ctx context.Context) error {
	client := f.hub.client.Resource(namespaceResource)
	if _, err := client.Get(ctx, f.SecretNamespace, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return err
	}
	options := metav1.CreateOptions{FieldManager: fieldManager}
	if f.DryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	_, err := client.Create(ctx, namespaceNamed(f.SecretNamespace), options)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// putCluster creates the PediaCluster, or changes what it says about the resources and the credentials.
func (f *Fleet) putCluster(ctx context.Context, hub *side, one *Added, name string) (*Change, error) {
	key := func(key string) *v1alpha2.SecretKey { return &v1alpha2.SecretKey{Name: name, Key: key} }
	object, err := pediaCluster(one.Name, map[string]string{
		contextAnnotation: one.Context, accountAnnotation: one.Account, ownerAnnotation: hub.owner,
		loginAnnotation: one.login.Host,
	}, &v1alpha2.ClusterSpec{
		APIServer:          one.Server,
		AuthenticationFrom: &v1alpha2.Authentication{CA: key(authorityKey), Token: key(tokenKey)},
		SyncResources:      groupResources(f.Resources),
	})
	if err != nil {
		return nil, err
	}
	change := &Change{Where: hub.where, Action: created, Kind: "PediaCluster", Name: one.Name, resource: clusterResource, from: hub}
	var dryRun []string
	if f.DryRun {
		dryRun = []string{metav1.DryRunAll}
	}
	clusters := hub.client.Resource(clusterResource)
	_, err = clusters.Create(ctx, object, metav1.CreateOptions{FieldManager: fieldManager, DryRun: dryRun})
	if apierrors.IsAlreadyExists(err) { // mayHaveName has looked at it
		change.Action = updated
		var patch []byte
		if patch, err = json.Marshal(object.Object); err == nil {
			_, err = clusters.Patch(ctx, one.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager, DryRun: dryRun})
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", change, brief(err))
	}
	return change, nil
}

// await waits until a cluster is copied, and takes it back if search cannot use it.
func (f *Fleet) await(ctx context.Context, one *Added) error {
	clusters := f.hub.client.Resource(clusterResource)
	err := follow(ctx, clusters, one.Name, waitTimeout, func(line string) { f.Progress(one.Name + ": " + line) })
	if unusable := (*unusableError)(nil); errors.As(err, &unusable) {
		err = withLeft(fmt.Errorf("%w; search must run with --secret-namespace %s", err, f.SecretNamespace), undo(ctx, one.Changes))
	}
	if err != nil {
		one.Error = err.Error()
	}
	return err
}

// withLeft adds to an error what could not be taken back, or nil.
func withLeft(err, left error) error {
	if left == nil {
		return err
	}
	return fmt.Errorf("%w; %w", err, left)
}

// PrintAdded prints clusters for people.
func PrintAdded(out io.Writer, all []*Added) error {
	for _, one := range all {
		if one.Error != "" {
			continue
		}
		did := map[string]string{created: "created", updated: "updated"}
		end := "is added"
		if one.DryRun {
			did, end = map[string]string{created: "would be created", updated: "would be updated"}, "would be added"
		}
		for _, change := range one.Changes {
			if one.DryRun {
				if _, err := fmt.Fprintf(out, "%s: %s %s\n", one.Name, change, did[change.Action]); err != nil {
					return err
				}
			}
		}
		if one.Expires != nil {
			end += fmt.Sprintf(": its token expires at %s, and search renews it before", one.Expires.UTC().Format(time.RFC3339))
		}
		if _, err := fmt.Fprintf(out, "%s %s\n", one.Name, end); err != nil {
			return err
		}
	}
	return nil
}
