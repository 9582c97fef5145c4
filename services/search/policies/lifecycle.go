// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/services/search/hub"
	"github.com/tripod-k8s/tripod/services/search/v1alpha1"
	"github.com/tripod-k8s/tripod/services/search/v1alpha2"
)

// errWaits says that the creation condition does not hold.
var errWaits = errors.New("the creation condition does not hold")

// applyLifecycle makes the PediaCluster of a lifecycle, and returns its status. The reasons of the conditions are those of Clusterpedia.
func (p *Policies) applyLifecycle(ctx context.Context, lifecycle *v1alpha1.PediaClusterLifecycle, cluster *v1alpha2.PediaCluster) v1alpha1.LifecycleStatus {
	status := v1alpha1.LifecycleStatus{Conditions: slices.Clone(lifecycle.Status.Conditions), References: lifecycle.Status.References}
	set := func(kind, reason string, wrong error) {
		setCondition(&status.Conditions, lifecycle.Generation, kind, reason, wrong)
	}
	kind := v1alpha1.Updating
	if cluster == nil {
		kind = v1alpha1.Created
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.Updating)
	} else if !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.Created) {
		set(v1alpha1.Created, existing(lifecycle, cluster.OwnerReferences), nil)
	}
	data, references, reason, err := p.dataOf(lifecycle)
	status.References = references
	if err == nil && cluster == nil {
		reason, err = p.create(ctx, lifecycle, data)
	} else if err == nil {
		reason, err = p.update(ctx, lifecycle, cluster, data)
	}
	set(kind, reason, err)
	return status
}

// existing returns the reason of Created for a PediaCluster that is there. The status that said who created it may be lost or late.
func existing(lifecycle *v1alpha1.PediaClusterLifecycle, owners []metav1.OwnerReference) string {
	if slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool { return o.Kind == v1alpha1.LifecycleKind && o.UID == lifecycle.UID }) {
		return "PediaClusterCreated"
	}
	return "PediaClusterExisted"
}

// dataOf reads the source and the references of a lifecycle. An error has the reason of a condition.
func (p *Policies) dataOf(lifecycle *v1alpha1.PediaClusterLifecycle) (data map[string]any, read []v1alpha1.Object, reason string, err error) {
	owner := metav1.GetControllerOf(lifecycle)
	if owner == nil || owner.Kind != v1alpha1.PolicyKind || owner.APIVersion != v1alpha1.GroupVersion.String() {
		return nil, nil, "OrphanLifecycle", fmt.Errorf("no %s controls it", v1alpha1.PolicyKind)
	}
	spec := &lifecycle.Spec
	source, err := p.objects.Of(spec.Source.GroupVersionResource(), spec.Source.Namespace, spec.Source.Name)
	if err != nil {
		return nil, nil, reasonOf(err, "SourceResourceNotFound"), err
	}
	references := map[string]any{}
	data = map[string]any{"source": source.Object, "references": references}
	for _, r := range spec.References {
		object, err := resolve(r, data)
		if err != nil {
			return nil, read, "FailedReferenceResourceParse", fmt.Errorf("%s: %w", r.Key, err)
		}
		read = append(read, object)
		found, err := p.objects.One(object.GroupVersionResource(), object.Namespace, object.Name)
		if err != nil {
			return nil, read, reasonOf(err, "ReferenceResourceNotFound"), err
		}
		references[r.Key] = found.Object
	}
	return data, read, "", nil
}

// reasonOf tells an object that does not exist from one that nobody has read yet.
func reasonOf(err error, missing string) string {
	if errors.Is(err, hub.ErrUnread) {
		return "WaitDependentResourceSynced"
	}
	return missing
}

// resolve returns the object that a reference names.
func resolve(r v1alpha1.Reference, data map[string]any) (v1alpha1.Object, error) {
	object := v1alpha1.Object{Group: r.Group, Version: r.Version, Resource: r.Resource}
	var err error
	if object.Namespace, err = render(r.NamespaceTemplate, data); err != nil {
		return object, fmt.Errorf("namespaceTemplate: %w", err)
	}
	if object.Name, err = render(r.NameTemplate, data); err != nil {
		return object, fmt.Errorf("nameTemplate: %w", err)
	}
	object.Namespace, object.Name = strings.TrimSpace(object.Namespace), strings.TrimSpace(object.Name)
	if object.Name == "" {
		return object, errors.New("nameTemplate makes an empty name")
	}
	return object, nil
}

// create creates the PediaCluster of a lifecycle when its condition holds.
func (p *Policies) create(ctx context.Context, lifecycle *v1alpha1.PediaClusterLifecycle, data map[string]any) (reason string, err error) {
	may, err := holds(lifecycle.Spec.CreationCondition, data)
	if err == nil && !may {
		err = errWaits
	}
	if err != nil {
		return "WaitCreationCondition", err
	}
	object, _, err := clusterOf(lifecycle, data)
	if err != nil {
		return "FailedResolveAndDecodePediaCluster", err
	}
	if _, err := p.client.Resource(clusterResource).Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return "CreationFailure", err
	}
	return "PediaClusterCreated", nil
}

// clusterOf returns the PediaCluster that the template of a lifecycle makes: as it is written, and as it is read.
func clusterOf(lifecycle *v1alpha1.PediaClusterLifecycle, data map[string]any) (*unstructured.Unstructured, *v1alpha2.PediaCluster, error) {
	text, err := render(lifecycle.Spec.Template, data)
	if err != nil {
		return nil, nil, err
	}
	object, read := &unstructured.Unstructured{}, &v1alpha2.PediaCluster{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		return nil, nil, errors.New("the template does not make YAML of a PediaCluster") // the error may have credentials
	}
	if err := yaml.Unmarshal([]byte(text), read); err != nil {
		return nil, nil, errors.New("the template makes a PediaCluster with a field of the wrong type, such as text that is not base64")
	}
	if object.Object == nil {
		return nil, nil, errors.New("the template makes nothing")
	}
	delete(object.Object, "status")
	object.SetAPIVersion(v1alpha2.GroupVersion.String())
	object.SetKind("PediaCluster")
	object.SetName(lifecycle.Name)
	object.SetNamespace("")
	object.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.LifecycleKind, Name: lifecycle.Name, UID: lifecycle.UID,
	}})
	return object, read, nil
}

// access are the fields that follow the template after the PediaCluster was created. Those about what to copy are for people to change.
type access struct {
	APIServer          string                   `json:"apiserver"`
	Kubeconfig         []byte                   `json:"kubeconfig"`
	CAData             []byte                   `json:"caData"`
	TokenData          []byte                   `json:"tokenData"`
	CertData           []byte                   `json:"certData"`
	KeyData            []byte                   `json:"keyData"`
	AuthenticationFrom *v1alpha2.Authentication `json:"authenticationFrom"`
}

func accessOf(spec v1alpha2.ClusterSpec) access {
	return access{spec.APIServer, spec.Kubeconfig, spec.CAData, spec.TokenData, spec.CertData, spec.KeyData, spec.AuthenticationFrom}
}

// update changes how a PediaCluster is reached to what the template makes now.
func (p *Policies) update(ctx context.Context, lifecycle *v1alpha1.PediaClusterLifecycle, has *v1alpha2.PediaCluster, data map[string]any) (reason string, err error) {
	_, wanted, err := clusterOf(lifecycle, data)
	if err != nil {
		return "FailedResolveAndDecodePediaCluster", err
	}
	if equality.Semantic.DeepEqual(accessOf(wanted.Spec), accessOf(has.Spec)) {
		return "PediaClusterUpdated", nil
	}
	patch, err := json.Marshal(map[string]any{"spec": accessOf(wanted.Spec)})
	if err == nil {
		_, err = p.client.Resource(clusterResource).Patch(ctx, has.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil {
		return "FailedPatchPediaCluster", err
	}
	return "PediaClusterUpdated", nil
}
