// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// ownerAnnotation is on what tripod search clusters add makes: the UID of the namespace kube-system of the hub, and the name of the
// PediaCluster. The command changes and removes nothing else.
const ownerAnnotation = "tripod-k8s.io/search-cluster"

// Resources of what the command makes.
var (
	namespaceResource   = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	accountResource     = schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
	secretResource      = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	roleResource        = rbacv1.SchemeGroupVersion.WithResource("roles")
	bindingResource     = rbacv1.SchemeGroupVersion.WithResource("rolebindings")
	clusterRoleResource = rbacv1.SchemeGroupVersion.WithResource("clusterroles")
	clusterBindResource = rbacv1.SchemeGroupVersion.WithResource("clusterrolebindings")
)

// Change is an object that tripod search clusters add has made or changed, or would.
type Change struct {
	// Where is "hub" or "cluster".
	Where     string `json:"where"`
	Action    string `json:"action"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`

	resource schema.GroupVersionResource
	from     *side
}

// Actions of changes.
const (
	created = "created"
	updated = "updated"
)

func (c *Change) String() string {
	return fmt.Sprintf("%s %s in the %s", c.Kind, strings.TrimPrefix(c.Namespace+"/"+c.Name, "/"), c.Where)
}

// side is one of the two clusters in which the command makes objects.
type side struct {
	where  string
	client dynamic.Interface
	// owner is the value of ownerAnnotation.
	owner  string
	dryRun bool
}

// change is the creation of an object.
func (s *side) change(resource schema.GroupVersionResource, kind string, of metav1.Object) *Change {
	return &Change{
		Where: s.where, Action: created, Kind: kind, Namespace: of.GetNamespace(), Name: of.GetName(), resource: resource, from: s,
	}
}

// ensure creates an object, or changes it if the command has made it before.
func (s *side) ensure(ctx context.Context, resource schema.GroupVersionResource, object runtime.Object) (*Change, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	wanted := &unstructured.Unstructured{Object: fields}
	kinds, _, err := clientgoscheme.Scheme.ObjectKinds(object)
	if err != nil {
		return nil, err
	}
	wanted.SetGroupVersionKind(kinds[0])
	annotations := wanted.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[ownerAnnotation] = s.owner
	wanted.SetAnnotations(annotations)
	wanted.SetLabels(map[string]string{"app.kubernetes.io/managed-by": "tripod"})

	change := s.change(resource, wanted.GetKind(), wanted)
	var dryRun []string
	if s.dryRun {
		dryRun = []string{metav1.DryRunAll}
	}
	client := s.client.Resource(resource).Namespace(wanted.GetNamespace())
	has, err := client.Get(ctx, wanted.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = client.Create(ctx, wanted, metav1.CreateOptions{FieldManager: fieldManager, DryRun: dryRun})
	case err != nil:
	case has.GetAnnotations()[ownerAnnotation] != s.owner:
		return nil, fmt.Errorf("there is a %s already, which this command has not made for it: remove it, or choose another name for the "+
			"cluster with NAME=CONTEXT", change)
	default:
		change.Action = updated
		wanted.SetResourceVersion(has.GetResourceVersion())
		_, err = client.Update(ctx, wanted, metav1.UpdateOptions{FieldManager: fieldManager, DryRun: dryRun})
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", change, brief(err))
	}
	return change, nil
}

// remove removes an object if the command has made it, and reports whether there was one.
func (s *side) remove(ctx context.Context, resource schema.GroupVersionResource, namespace, name string) (bool, error) {
	client := s.client.Resource(resource).Namespace(namespace)
	has, err := client.Get(ctx, name, metav1.GetOptions{})
	if err == nil && has.GetAnnotations()[ownerAnnotation] != s.owner {
		return false, nil
	}
	if err == nil {
		uid := has.GetUID()
		err = client.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	}
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("%s %s in the %s: %w", resource.Resource, strings.TrimPrefix(namespace+"/"+name, "/"), s.where, brief(err))
	}
	return true, nil
}

// namespacesWith returns the namespaces with an object of that name that the command has made.
func (s *side) namespacesWith(ctx context.Context, resource schema.GroupVersionResource, name string) (namespaces []string, err error) {
	list, err := s.client.Resource(resource).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		return nil, fmt.Errorf("%s named %s in the %s: %w", resource.Resource, name, s.where, brief(err))
	}
	for _, object := range list.Items {
		if object.GetName() == name && object.GetAnnotations()[ownerAnnotation] == s.owner {
			namespaces = append(namespaces, object.GetNamespace())
		}
	}
	return namespaces, nil
}

// undoTime bounds how long the command takes back what it has done, also after it was interrupted.
const undoTime = 30 * time.Second

// undo removes what was created, the last one first. The error names what is left.
func undo(ctx context.Context, changes []*Change) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	var left []error
	for _, change := range slices.Backward(changes) {
		if change.Action != created || change.resource == namespaceResource || change.from.dryRun {
			continue // an empty namespace does no harm, and not every cluster removes one
		}
		if _, err := change.from.remove(ctx, change.resource, change.Namespace, change.Name); err != nil {
			left = append(left, fmt.Errorf("left behind: %w", err))
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("%w; the same command goes on from there", errors.Join(left...))
	}
	return nil
}

// maxRefusal bounds the text of an error of an API server: that about a role has each of its rules.
const maxRefusal = 400

type briefError struct{ error }

func (e *briefError) Unwrap() error { return e.error }
func (e *briefError) Error() string {
	text, _, _ := strings.Cut(e.error.Error(), "\n")
	if len(text) > maxRefusal {
		text = strings.ToValidUTF8(text[:maxRefusal], "") + "..."
	}
	return text
}

// brief shortens an error of an API server to a line.
func brief(err error) error { return &briefError{err} }

// step is an object to make.
type step struct {
	resource schema.GroupVersionResource
	object   metav1.Object
}

// take makes objects, one after the other, and returns what it has done, also if it fails.
func (s *side) take(ctx context.Context, steps []step) (changes []*Change, err error) {
	for _, step := range steps {
		do := s.ensure
		if s.dryRun {
			do = s.try
		}
		change, err := do(ctx, step.resource, step.object.(runtime.Object)) // each is one
		if err != nil {
			return changes, err
		}
		changes = append(changes, change)
	}
	return changes, nil
}

// try has the API server check an object as far as it can: it refuses one in a namespace, or that binds a role, which does not exist yet.
func (s *side) try(ctx context.Context, resource schema.GroupVersionResource, object runtime.Object) (*Change, error) {
	named := object.(metav1.Object) // each is one
	_, err := s.client.Resource(resource).Namespace(named.GetNamespace()).Get(ctx, named.GetName(), metav1.GetOptions{})
	missing := apierrors.IsNotFound(err) && (resource == bindingResource || resource == clusterBindResource)
	if named.GetNamespace() != "" {
		_, err := s.client.Resource(namespaceResource).Get(ctx, named.GetNamespace(), metav1.GetOptions{})
		missing = missing || apierrors.IsNotFound(err)
	}
	if !missing {
		return s.ensure(ctx, resource, object)
	}
	kinds, _, err := clientgoscheme.Scheme.ObjectKinds(object)
	if err != nil {
		return nil, err
	}
	change := s.change(resource, kinds[0].Kind, named)
	if err := s.mayCreate(ctx, resource, "", named.GetNamespace(), named.GetName()); err != nil {
		return nil, fmt.Errorf("%s: %w", change, err)
	}
	return change, nil
}

// mayCreate returns an error if the caller may not create something.
func (s *side) mayCreate(ctx context.Context, resource schema.GroupVersionResource, subresource, namespace, name string) error {
	review := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
		"spec": map[string]any{"resourceAttributes": map[string]any{
			"verb": "create", "group": resource.Group, "resource": resource.Resource, "subresource": subresource,
			"namespace": namespace, "name": name,
		}},
	}}
	reviews := authorizationv1.SchemeGroupVersion.WithResource("selfsubjectaccessreviews")
	answer, err := s.client.Resource(reviews).Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return brief(err)
	}
	if allowed, _, _ := unstructured.NestedBool(answer.Object, "status", "allowed"); !allowed {
		return fmt.Errorf("the user may not create %s", strings.TrimSuffix(resource.GroupResource().String()+"/"+subresource, "/"))
	}
	return nil
}
