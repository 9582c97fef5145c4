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
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/services/search/apis/cluster/v1alpha2"
	"github.com/tripod-k8s/tripod/services/search/apis/policy/v1alpha1"
	"github.com/tripod-k8s/tripod/services/search/hub"
	"github.com/tripod-k8s/tripod/services/search/parties"
	"github.com/tripod-k8s/tripod/services/search/templates"
)

// errWaits says that the creation condition does not hold.
var errWaits = errors.New("the creation condition does not hold")

// verify returns the origin of a lifecycle, or why it is not accepted. It is not known if its policy may be late.
//
// A writer of lifecycles may name any owner. So a lifecycle counts only if a policy makes it of one of its sources in this pass, as
// it is. For the same reason, an owner that a policy has not set takes nothing away: a name that a policy makes, or that is unclear, is
// not known while the lifecycle says something else.
func verify(lifecycle *v1alpha1.PediaClusterLifecycle, s *state) (made origin, known bool, err error) {
	owner := metav1.GetControllerOf(lifecycle)
	ofPolicy := isPolicy(owner)
	made, exists := s.made[lifecycle.Name]
	switch {
	case exists && ofPolicy && made.policy.UID == owner.UID:
		return made, !made.late, nil
	case exists || s.unclear[lifecycle.Name] || ofPolicy && s.unread[owner.UID] || s.isUnread(lifecycle.Name):
		return made, false, nil
	case !ofPolicy:
		return made, true, fmt.Errorf("no %s controls it", v1alpha1.PolicyKind)
	default:
		return made, true, fmt.Errorf("no %s %s with the UID %s makes it of one of its sources", v1alpha1.PolicyKind, owner.Name, owner.UID)
	}
}

func isPolicy(owner *metav1.OwnerReference) bool {
	return owner != nil && owner.Kind == v1alpha1.PolicyKind && owner.APIVersion == v1alpha1.GroupVersion.String()
}

// applyLifecycle makes the PediaCluster of a lifecycle, and returns its status if it is known. The reasons of the conditions are those of
// Clusterpedia.
func (p *Policies) applyLifecycle(
	ctx context.Context, lifecycle *v1alpha1.PediaClusterLifecycle, s *state,
) (status v1alpha1.LifecycleStatus, known bool) {
	made, known, err := verify(lifecycle, s)
	if !known {
		return status, false
	}
	cluster := s.clusters[lifecycle.Name]
	status.Conditions = slices.Clone(lifecycle.Status.Conditions)
	set := func(kind, reason string, wrong error) {
		setCondition(&status.Conditions, lifecycle.Generation, kind, reason, wrong)
	}
	kind := v1alpha1.Updating
	if cluster == nil {
		kind = v1alpha1.Created
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.Updating)
	} else if !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.Created) && err == nil {
		set(v1alpha1.Created, existing(lifecycle, cluster.OwnerReferences), nil)
	}
	reason := "OrphanLifecycle"
	if err == nil {
		m := maker{
			Policies: p, owner: ownerOf(made.policy, made.source), policy: made.policy.Name, lifecycle: lifecycle,
			party: made.party(),
		}
		if status.References, reason, err = m.apply(ctx, cluster, made.source); reason == tooManyReferences {
			s.beyond[made.policy.UID]++
		}
	}
	set(kind, reason, err)
	return status, true
}

// maker makes the PediaCluster of a lifecycle that is accepted.
type maker struct {
	*Policies
	owner templates.Owner
	// policy is the name of the policy, and party that of what it makes of the source.
	policy    string
	party     parties.Party
	lifecycle *v1alpha1.PediaClusterLifecycle
}

// apply creates the PediaCluster, or changes the one that is there. It returns the references that it has read, and the reason of the
// condition.
func (m *maker) apply(
	ctx context.Context, has *v1alpha2.PediaCluster, source *unstructured.Unstructured,
) ([]v1alpha1.Object, string, error) {
	data, read, reason, err := m.data(ctx, source)
	switch {
	case err != nil:
	case has == nil:
		reason, err = m.create(ctx, data)
	case !mayChange(m.lifecycle, m.party, has):
		reason, err = "PediaClusterNotOwned", fmt.Errorf("this PediaClusterLifecycle did not make PediaCluster %s, so it does not change how "+
			"search reaches it: if it should, "+
			"kubectl annotate pediacluster %s %s=%s", has.Name, has.Name, adoptAnnotation, m.policy)
	default:
		reason, err = m.update(ctx, has, data)
	}
	return read, reason, err
}

const (
	// adoptAnnotation of a PediaCluster names the policy that may change how it is reached, although no lifecycle of it has made the
	// PediaCluster.
	adoptAnnotation = "tripod-k8s.io/adopted-by"
	// madeAnnotation of a PediaCluster is the party for which search has made it. An owner is no proof of that: a request that deletes a
	// lifecycle says whether its PediaCluster keeps it.
	madeAnnotation = "tripod-k8s.io/made-by"
)

// isMadeFor reports whether search has made a PediaCluster for a party.
func isMadeFor(party parties.Party, cluster *v1alpha2.PediaCluster) bool {
	return party.IsShared() && cluster.Annotations[madeAnnotation] == party.Text()
}

// mayChange reports whether the lifecycle has made a PediaCluster, or one of the same party that is gone, or its writer has handed it over.
// Otherwise a policy, or the owner of a source, could take the PediaCluster of others.
func mayChange(lifecycle *v1alpha1.PediaClusterLifecycle, party parties.Party, has *v1alpha2.PediaCluster) bool {
	return owns(lifecycle, has.OwnerReferences) || len(has.OwnerReferences) == 0 && isMadeFor(party, has) ||
		has.Annotations[adoptAnnotation] == party.Policy()
}

// existing returns the reason of Created for a PediaCluster that is there. The status that named its creator may be lost or late.
func existing(lifecycle *v1alpha1.PediaClusterLifecycle, owners []metav1.OwnerReference) string {
	if owns(lifecycle, owners) {
		return "PediaClusterCreated"
	}
	return "PediaClusterExisted"
}

// owns reports whether a lifecycle is among the owners of a PediaCluster.
func owns(lifecycle *v1alpha1.PediaClusterLifecycle, owners []metav1.OwnerReference) bool {
	return slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool {
		return o.Kind == v1alpha1.LifecycleKind && o.UID == lifecycle.UID
	})
}

// data reads the references of a lifecycle. An error has the reason of a condition.
func (m *maker) data(
	ctx context.Context, source *unstructured.Unstructured,
) (data map[string]any, read []v1alpha1.Object, reason string, err error) {
	references := map[string]any{}
	data = map[string]any{"source": source.Object, "references": references}
	for _, r := range m.lifecycle.Spec.References {
		object, err := m.resolve(ctx, r, data)
		if err != nil {
			return nil, read, "FailedReferenceResourceParse", fmt.Errorf("%s: %w", r.Key, err)
		}
		read = append(read, object)
		found, err := m.objects.OneFor(m.party, object.GroupVersionResource(), object.Namespace, object.Name)
		if err != nil {
			return nil, read, reasonOf(err, "ReferenceResourceNotFound"), err
		}
		references[r.Key] = found.Object
	}
	return data, read, "", nil
}

// tooManyReferences is the reason of lifecycles and policies with references that are not followed.
const tooManyReferences = "TooManyReferences"

// reasonOf distinguishes an object that does not exist from one that was not read yet, or is one too many.
func reasonOf(err error, missing string) string {
	switch {
	case errors.Is(err, hub.ErrUnread):
		return "WaitDependentResourceSynced"
	case errors.Is(err, hub.ErrTooMany):
		return tooManyReferences
	}
	return missing
}

// resolve returns the object that a reference names.
func (m *maker) resolve(ctx context.Context, r v1alpha1.LifecycleReference, data map[string]any) (v1alpha1.Object, error) {
	object := v1alpha1.Object{Group: r.Group, Version: r.Version, Resource: r.Resource}
	var err error
	if object.Namespace, err = m.templates.Render(ctx, m.owner, r.NamespaceTemplate, data); err != nil {
		return object, fmt.Errorf("namespaceTemplate: %w", err)
	}
	if object.Name, err = m.templates.Render(ctx, m.owner, r.NameTemplate, data); err != nil {
		return object, fmt.Errorf("nameTemplate: %w", err)
	}
	object.Namespace, object.Name = strings.TrimSpace(object.Namespace), strings.TrimSpace(object.Name)
	if object.Name == "" {
		return object, errors.New("nameTemplate makes an empty name")
	}
	return object, nil
}

// create creates the PediaCluster when its condition holds.
func (m *maker) create(ctx context.Context, data map[string]any) (reason string, err error) {
	may, err := m.templates.Holds(ctx, m.owner, m.lifecycle.Spec.CreationCondition, data)
	if err == nil && !may {
		err = errWaits
	}
	if err != nil {
		return "WaitCreationCondition", err
	}
	object, _, err := m.cluster(ctx, data)
	if err != nil {
		return "FailedResolveAndDecodePediaCluster", err
	}
	if _, err := m.client.Resource(clusterResource).Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return "CreationFailure", err
	}
	if err := m.setParty(ctx, m.lifecycle.Name, m.party.Text()); err != nil { // the next pass does it, too
		klog.V(2).InfoS("It is not written yet whose share a PediaCluster has", "cluster", m.lifecycle.Name, "err", err)
	}
	return "PediaClusterCreated", nil
}

// cluster returns the PediaCluster that the template makes: as it is written, and as it is read.
func (m *maker) cluster(ctx context.Context, data map[string]any) (*unstructured.Unstructured, *v1alpha2.PediaCluster, error) {
	text, err := m.templates.JSON(ctx, m.owner, m.lifecycle.Spec.Template, data)
	if err != nil {
		return nil, nil, err
	}
	object, read := &unstructured.Unstructured{}, &v1alpha2.PediaCluster{}
	if err := utiljson.Unmarshal([]byte(text), &object.Object); err != nil {
		return nil, nil, errors.New("the template makes no PediaCluster") // the error may have credentials
	}
	if err := json.Unmarshal([]byte(text), read); err != nil {
		return nil, nil, errors.New("the template makes a PediaCluster with a field of the wrong type, such as text that is not base64")
	}
	if object.Object == nil {
		return nil, nil, errors.New("the template makes nothing")
	}
	delete(object.Object, "status")
	object.SetAPIVersion(v1alpha2.GroupVersion.String())
	object.SetKind("PediaCluster")
	object.SetName(m.lifecycle.Name)
	object.SetNamespace("")
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	delete(annotations, adoptAnnotation) // that is for people to say
	annotations[madeAnnotation] = m.party.Text()
	object.SetAnnotations(annotations)
	object.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.LifecycleKind, Name: m.lifecycle.Name, UID: m.lifecycle.UID,
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
func (m *maker) update(ctx context.Context, has *v1alpha2.PediaCluster, data map[string]any) (reason string, err error) {
	_, wanted, err := m.cluster(ctx, data)
	if err != nil {
		return "FailedResolveAndDecodePediaCluster", err
	}
	if equality.Semantic.DeepEqual(accessOf(wanted.Spec), accessOf(has.Spec)) {
		return "PediaClusterUpdated", nil
	}
	patch, err := json.Marshal(map[string]any{"spec": accessOf(wanted.Spec)})
	if err == nil {
		_, err = m.client.Resource(clusterResource).Patch(ctx, has.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil {
		return "FailedPatchPediaCluster", err
	}
	return "PediaClusterUpdated", nil
}
