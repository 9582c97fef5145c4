// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/services/search/apis/cluster/v1alpha2"
	"github.com/tripod-k8s/tripod/services/search/apis/policy/v1alpha1"
	"github.com/tripod-k8s/tripod/services/search/hub"
	"github.com/tripod-k8s/tripod/services/search/templates"
)

var (
	policyResource    = v1alpha1.GroupVersion.WithResource("clusterimportpolicies")
	lifecycleResource = v1alpha1.GroupVersion.WithResource("pediaclusterlifecycles")
	clusterResource   = v1alpha2.GroupVersion.WithResource("pediaclusters")
)

const (
	// leastPause is between two passes, however often objects change.
	leastPause = time.Second
	// discoveryInterval is how often the cluster is asked which resources it has. A pass follows, whatever has changed.
	discoveryInterval = 20 * time.Second
)

// Policies makes PediaClusters.
type Policies struct {
	client    dynamic.Interface
	discovery discovery.DiscoveryInterface
	objects   *hub.Objects
	templates *templates.Templates
	writable  func() bool
	changed   chan struct{}

	resources  resources
	discovered time.Time
	// most is how many PediaClusters a policy makes of the sources in a namespace.
	most int
	// beyond and refused are those of the last pass.
	beyond, refused map[types.UID]int
}

// StandardMost is how many PediaClusters a policy makes of the sources in a namespace, unless a flag says something else.
const StandardMost = 1000

// New returns the policies of a cluster, whose templates have limits, and which make so many PediaClusters at most of the sources of a
// policy in a namespace. While writable is false, they write nothing.
func New(
	client dynamic.Interface, questions discovery.DiscoveryInterface, memory *hub.Memory, limits templates.Limits, most int,
	writable func() bool,
) *Policies {
	p := &Policies{
		client: client, discovery: questions, templates: templates.New(limits), most: most, writable: writable, changed: make(chan struct{}, 1),
	}
	p.objects = hub.New(client, memory, func() {
		select {
		case p.changed <- struct{}{}:
		default:
		}
	})
	p.objects.Most = hub.MostNamed // the sources of a policy in a namespace have an equal share of them
	p.objects.Trim = map[schema.GroupVersionResource]func(*unstructured.Unstructured){
		clusterResource: onlyParty,
	}
	return p
}

// Run makes PediaClusters until the context ends.
func (p *Policies) Run(ctx context.Context) {
	defer p.objects.Stop()
	for ctx.Err() == nil {
		if p.writable() {
			p.reconcile(ctx)
		}
		p.objects.Sweep()
		p.templates.Sweep()
		sleep(ctx, leastPause)
		select {
		case <-ctx.Done():
		case <-p.changed:
		case <-time.After(discoveryInterval):
		}
	}
}

func sleep(ctx context.Context, pause time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}

// state is what a pass begins with.
type state struct {
	policies   []*v1alpha1.ClusterImportPolicy
	lifecycles map[string]*v1alpha1.PediaClusterLifecycle
	clusters   map[string]*v1alpha2.PediaCluster
	// ofUID has the UIDs of the lifecycles.
	ofUID map[types.UID]bool
	// ofParty are the names of the PediaClusters with a party, by its text.
	ofParty map[string][]string

	// made are the lifecycles that policies make of their sources in this pass, by name.
	made map[string]origin
	// unread are policies whose sources are not known yet, and unclear are lifecycles of sources of which it is not known what a policy makes.
	unread  map[types.UID]bool
	unclear map[string]bool
	// beyond counts the sources of policies whose references are too many.
	beyond map[types.UID]int
	// refused counts the sources of policies of which no PediaCluster is made, because their namespace has too many.
	refused map[types.UID]int
}

// origin is what a lifecycle is made of.
type origin struct {
	policy *v1alpha1.ClusterImportPolicy
	source *unstructured.Unstructured
	// late is set if the lifecycle was written in this pass, and was different before.
	late bool
}

// reconcile compares all objects once.
func (p *Policies) reconcile(ctx context.Context) {
	s, err := p.read()
	if err != nil {
		klog.V(2).InfoS("Policies wait", "err", err)
		return
	}
	if len(s.policies) > 0 && time.Since(p.discovered) > discoveryInterval {
		resources, err := discover(p.discovery)
		if err != nil {
			klog.ErrorS(err, "Policies do not know which resources there are")
			return
		}
		p.resources, p.discovered = resources, time.Now()
	}
	for _, policy := range s.policies {
		status := v1alpha1.PolicyStatus{Conditions: p.applyPolicy(ctx, policy, &s)}
		p.updateStatus(ctx, policyResource, policy.Name, policy.Status, status)
	}
	for _, name := range slices.Sorted(maps.Keys(s.lifecycles)) { // which of too many references are followed stays the same
		lifecycle := s.lifecycles[name]
		if status, known := p.applyLifecycle(ctx, lifecycle, &s); known {
			p.updateStatus(ctx, lifecycleResource, lifecycle.Name, lifecycle.Status, status)
		}
	}
	p.beyond = s.beyond
	p.count(&s)
	p.setParties(ctx, &s)
	p.collect(ctx, s)
}

func (p *Policies) read() (s state, err error) {
	if s.policies, err = all[v1alpha1.ClusterImportPolicy](p.objects, policyResource); err != nil {
		return s, err
	}
	slices.SortFunc(s.policies, func(a, b *v1alpha1.ClusterImportPolicy) int { return cmp.Compare(a.Name, b.Name) })
	lifecycles, err := all[v1alpha1.PediaClusterLifecycle](p.objects, lifecycleResource)
	if err != nil {
		return s, err
	}
	clusters, err := all[v1alpha2.PediaCluster](p.objects, clusterResource)
	if err != nil {
		return s, err
	}
	s.lifecycles, s.clusters = map[string]*v1alpha1.PediaClusterLifecycle{}, map[string]*v1alpha2.PediaCluster{}
	s.made, s.unread, s.unclear = map[string]origin{}, map[types.UID]bool{}, map[string]bool{}
	s.beyond, s.refused, s.ofParty = map[types.UID]int{}, map[types.UID]int{}, map[string][]string{}
	s.ofUID = map[types.UID]bool{}
	for _, l := range lifecycles {
		s.lifecycles[l.Name] = l
		s.ofUID[l.UID] = true
	}
	for _, c := range clusters {
		s.clusters[c.Name] = c
		s.ofParty[c.Status.Party] = append(s.ofParty[c.Status.Party], c.Name)
	}
	return s, nil
}

// all returns the objects of a resource that are not being deleted.
func all[T any](objects *hub.Objects, resource schema.GroupVersionResource) (typed []*T, err error) {
	list, err := objects.List(resource)
	if err != nil {
		return nil, err
	}
	for _, object := range list {
		if object.GetDeletionTimestamp() != nil {
			continue
		}
		one := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, one); err != nil {
			klog.ErrorS(err, "An object cannot be read", "resource", resource.GroupResource(), "name", object.GetName())
			continue
		}
		typed = append(typed, one)
	}
	return typed, nil
}

// updateStatus writes a status if it has changed.
func (p *Policies) updateStatus(ctx context.Context, resource schema.GroupVersionResource, name string, before, now any) {
	if equality.Semantic.DeepEqual(before, now) {
		return
	}
	patch, err := json.Marshal(map[string]any{"status": now})
	if err == nil {
		_, err = p.client.Resource(resource).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		klog.ErrorS(err, "Cannot write the status", "resource", resource.GroupResource(), "name", name)
	}
}

// collect removes what was made for a policy or a lifecycle that is gone. A garbage collector would do the same; not every cluster runs
// one.
func (p *Policies) collect(ctx context.Context, s state) {
	policies := map[types.UID]bool{}
	for _, policy := range s.policies {
		policies[policy.UID] = true
	}
	for _, lifecycle := range s.lifecycles {
		p.collectOne(ctx, lifecycleResource, &lifecycle.ObjectMeta, v1alpha1.PolicyKind, policyResource, policies)
	}
	for _, cluster := range s.clusters {
		p.collectOne(ctx, clusterResource, &cluster.ObjectMeta, v1alpha1.LifecycleKind, lifecycleResource, s.ofUID)
	}
}

// collectOne deletes an object if it has owners, all are of one kind, and all are gone. known are those that exist.
func (p *Policies) collectOne(
	ctx context.Context, resource schema.GroupVersionResource, object *metav1.ObjectMeta, kind string, owners schema.GroupVersionResource,
	known map[types.UID]bool,
) {
	for _, owner := range object.OwnerReferences {
		if owner.Kind != kind || owner.APIVersion != v1alpha1.GroupVersion.String() || known[owner.UID] {
			return
		}
		if p.mayLive(ctx, owners, &owner) {
			return
		}
	}
	if len(object.OwnerReferences) > 0 {
		p.remove(ctx, resource, object)
	}
}

// mayLive asks the cluster itself whether an owner exists, because an informer may be late. Returns true if unsure. A lifecycle that is
// being deleted exists no more, whatever finalizers its writers give it. A policy does: it may be about to leave its lifecycles.
func (p *Policies) mayLive(ctx context.Context, resource schema.GroupVersionResource, owner *metav1.OwnerReference) bool {
	live, err := p.client.Resource(resource).Get(ctx, owner.Name, metav1.GetOptions{})
	if err != nil {
		return !apierrors.IsNotFound(err)
	}
	return live.GetUID() == owner.UID && (resource != lifecycleResource || live.GetDeletionTimestamp() == nil)
}

// remove deletes an object unless it has changed.
func (p *Policies) remove(ctx context.Context, resource schema.GroupVersionResource, object *metav1.ObjectMeta) {
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion}}
	err := p.client.Resource(resource).Delete(ctx, object.Name, options)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && ctx.Err() == nil {
		klog.ErrorS(err, "Cannot remove what was made of an object that is gone", "resource", resource.GroupResource(), "name", object.Name)
	}
}

// asUnstructured returns an object for the client.
func asUnstructured(object any) (*unstructured.Unstructured, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	delete(fields, "status")
	return &unstructured.Unstructured{Object: fields}, nil
}
