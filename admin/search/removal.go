// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/tripod-k8s/tripod/services/search/apis/cluster/v1alpha2"
)

// Removal takes clusters from search.
type Removal struct {
	// Config has the contexts of the caller, and Hub reaches the cluster that search is part of.
	Config *clientcmdapi.Config
	Hub    *rest.Config
	// Context replaces the one that a cluster was added with.
	Context string
	// KeepAccount leaves the account of search in the cluster.
	KeepAccount bool
}

// Remove removes all clusters that it can, with the accounts that search has in them.
func (r *Removal) Remove(ctx context.Context, names []string, out io.Writer) error {
	if r.Context != "" && len(names) > 1 {
		return errors.New("--context is for one cluster: remove them one after the other")
	}
	client, err := dynamic.NewForConfig(r.Hub)
	if err != nil {
		return err
	}
	var failures []error
	for _, name := range names {
		if err := r.remove(ctx, client, name); err != nil {
			failures = append(failures, err)
			continue
		}
		fmt.Fprintf(out, "%s is removed\n", name)
	}
	return errors.Join(failures...)
}

// remove removes a cluster last of all, so that the same command goes on if it fails before.
func (r *Removal) remove(ctx context.Context, hub dynamic.Interface, name string) error {
	clusters := hub.Resource(clusterResource)
	object, err := clusters.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("search copies no cluster %s: tripod search clusters list names those that it copies", name)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, withoutSearch(err))
	}
	if err := r.removeAccount(ctx, hub, object); err != nil {
		return fmt.Errorf("%s is not removed: %w", name, err)
	}
	uid := object.GetUID()
	err = clusters.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// removeAccount removes the account of search in a cluster, and its Secret in the hub. A writer of PediaClusters may have changed the
// annotations: what they name counts only as far as the names and annotations of the objects themselves say that the command has made them,
// and the Secret is found by its name.
func (r *Removal) removeAccount(ctx context.Context, hub dynamic.Interface, object *unstructured.Unstructured) error {
	cluster, err := pediaClusterOf(object)
	if err != nil {
		return err
	}
	system, err := hub.Resource(namespaceResource).Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("hub: %w", brief(err))
	}
	uid, annotations := string(system.GetUID()), object.GetAnnotations()
	owner, name := ownerOfObjects(uid, cluster.Name), nameOfAccount(uid, cluster.Name)
	of := side{where: "hub", client: hub, owner: owner}
	places, err := of.namespacesWith(ctx, secretResource, name)
	if err != nil {
		return err
	}
	at := annotations[accountAnnotation]
	if at == "" && len(places) == 0 {
		return nil // another command has made the PediaCluster
	}
	namespace, _, _ := strings.Cut(at, "/")
	switch {
	case r.KeepAccount:
	case namespace == "":
		return fmt.Errorf("search has an account in the cluster, and the annotation %s no longer says in which namespace: remove the service "+
			"account %s there, and go on with --keep-account", accountAnnotation, name)
	default:
		if err := r.removeFromCluster(ctx, cluster, namespace, name, owner); err != nil {
			return err
		}
	}
	var failures []error
	for _, resource := range []schema.GroupVersionResource{bindingResource, roleResource, secretResource} {
		for _, namespace := range places {
			_, err := of.remove(ctx, resource, namespace, name)
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}

// removeFromCluster removes the account of search in a cluster.
func (r *Removal) removeFromCluster(ctx context.Context, cluster *v1alpha2.PediaCluster, namespace, name, owner string) error {
	account, err := r.account(cluster, namespace, name, owner)
	if err != nil {
		return err
	}
	removed, err := account.remove(ctx)
	if err != nil {
		return err
	}
	if !removed {
		return fmt.Errorf("the cluster of that context has no service account %s/%s of search: it is another cluster, or the account is gone; "+
			"name another with --context, or go on with --keep-account", namespace, name)
	}
	return nil
}

// account returns the account of search in a cluster, by the login of the caller.
func (r *Removal) account(cluster *v1alpha2.PediaCluster, namespace, name, owner string) (*account, error) {
	context := r.Context
	if context == "" {
		context = cluster.Annotations[contextAnnotation]
	}
	keep := fmt.Sprintf("name another with --context, or leave the service account %s/%s there with --keep-account", namespace, name)
	login, err := loginOf(r.Config, context)
	if err != nil {
		return nil, fmt.Errorf("search has an account in the cluster, and cannot reach it: %w; %s", err, keep)
	}
	if r.Context == "" && login.Host != cluster.Annotations[loginAnnotation] {
		return nil, fmt.Errorf("search has an account in the cluster at %s, and context %s is that of %s: %s",
			cluster.Annotations[loginAnnotation], context, login.Host, keep)
	}
	return newAccount(login, namespace, name, owner, false)
}

func pediaClusterOf(object *unstructured.Unstructured) (*v1alpha2.PediaCluster, error) {
	cluster := &v1alpha2.PediaCluster{}
	return cluster, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, cluster)
}

func namespaceNamed(name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
	object.SetName(name)
	return object
}
