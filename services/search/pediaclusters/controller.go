// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pediaclusters

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/services/search/apis/cluster/v1alpha2"
	"github.com/tripod-k8s/tripod/services/search/hub"
	"github.com/tripod-k8s/tripod/services/search/member"
	"github.com/tripod-k8s/tripod/services/search/parties"
	"github.com/tripod-k8s/tripod/services/search/shards"
	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/access"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

var (
	clusters  = v1alpha2.GroupVersion.WithResource("pediaclusters")
	resources = v1alpha2.GroupVersion.WithResource("clustersyncresources")
)

// interval is how often members are compared with PediaClusters, and their states written.
const interval = 2 * time.Second

// Controller runs a member for each PediaCluster, and writes the status.
type Controller struct {
	Options
	copying member.Dependencies
	store   *store.Store
	shards  *shards.Shards
	client  dynamic.Interface

	// objects are PediaClusters and ClusterSyncResources, which several goroutines read.
	mu          sync.Mutex
	objects     *hub.Objects
	credentials credentials
	running     map[string]*running
	removals    *removals
	renewals    *renewals
	// unread is why these could not be read, as the log has it.
	unread string
	// unknown are clusters in the store that had no PediaCluster when forget last looked.
	unknown map[string]bool
}

// running is a member that runs until end is called.
type running struct {
	// spec has the credentials that were in Secrets.
	spec v1alpha2.ClusterSpec
	// permit is not nil if its kubeconfig was in a Secret.
	permit *permit
	shared []v1alpha2.GroupResources
	party  parties.Party
	// invalid is what is wrong with the spec. There is no member then. unresolved is set if it is about what the spec names.
	invalid    error
	unresolved bool
	apiServer  string
	// written are the resources in the status that this replica has written last.
	written []v1alpha2.GroupStatus
	*member.Member
	end  context.CancelFunc
	done chan struct{}
}

// Options say how members are found.
type Options struct {
	// Hub is the name of the cluster that search is part of, among the members. No PediaCluster may have it.
	Hub string
	// HubRights makes the RBAC of that cluster count for its own objects.
	HubRights bool
	// SecretNamespace is the namespace of the Secrets that PediaClusters may name. If it is empty, they may name none.
	SecretNamespace string
	// Writable reports whether PediaClusters are as they were written, and can be written. Nil stands for yes.
	Writable func() bool
	// TooLarge says what of the RBAC of a cluster shows nothing because it takes too much memory. Nil stands for a process that does not know.
	TooLarge func(cluster string) string
}

// New returns the members that the PediaClusters of a cluster name.
func New(client dynamic.Interface, memory *hub.Memory, o Options, shared member.Dependencies) *Controller {
	m := &Controller{
		Options: o, copying: shared, store: shared.Store, shards: shared.Shards, client: client, running: map[string]*running{},
		objects:     hub.New(client, memory, func() {}),
		credentials: credentials{objects: hub.New(client, memory, func() {}), namespace: o.SecretNamespace},
	}
	m.credentials.objects.Most = hub.MostNamed
	m.renewals = newRenewals(client)
	m.removals = newRemovals(func(ctx context.Context, cluster string) error { return m.store.RemoveCluster(ctx, cluster) })
	// A cluster with many resources, or one that lies, has a hundred times as much there as in its spec.
	m.objects.Trim = map[schema.GroupVersionResource]func(*unstructured.Unstructured){
		clusters: func(cluster *unstructured.Unstructured) {
			unstructured.RemoveNestedField(cluster.Object, "status", "syncResources")
		},
	}
	return m
}

// Run copies clusters until the context ends.
func (m *Controller) Run(ctx context.Context) {
	var group wait.Group
	defer m.removals.group.Wait()
	defer m.renewals.group.Wait()
	defer group.Wait()
	defer m.stop()
	defer m.credentials.objects.Stop()
	defer m.objects.Stop()
	known := func(context.Context) (bool, error) {
		_, _, err := m.read()
		return err == nil, nil
	}
	if wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, known) != nil {
		return
	}
	group.StartWithContext(ctx, func(ctx context.Context) { wait.UntilWithContext(ctx, m.forget, forgetInterval) })
	wait.UntilWithContext(ctx, m.reconcile, interval)
}

// forgetInterval is how often search looks for clusters that were not removed, because the replica that should have is gone.
const forgetInterval = 20 * time.Second

// forget removes clusters whose PediaCluster is gone. It looks twice, because another replica may have seen a new one before this one.
func (m *Controller) forget(ctx context.Context) {
	names, err := m.store.Clusters(ctx)
	unknown := map[string]bool{}
	var begun []*removal
	for _, name := range names {
		if name == m.Hub || !m.isGone(name) || !m.shards.Mine(name) {
			continue
		}
		if unknown[name] = true; m.unknown[name] && err == nil {
			begun = append(begun, m.removals.begin(ctx, name))
		}
	}
	m.unknown = unknown
	for _, removal := range begun {
		<-removal.done
	}
	if err != nil && ctx.Err() == nil {
		klog.ErrorS(err, "It is not known which clusters are not searched any more")
	}
}

// reconcile makes members match the PediaClusters, and reports their states.
func (m *Controller) reconcile(ctx context.Context) {
	if m.Writable != nil && !m.Writable() {
		return
	}
	wanted, resources, err := m.read()
	if err != nil {
		return // all stays as it is
	}
	states, err := m.store.States(ctx)
	var unreadable map[string][]access.Unreadable
	if err == nil {
		unreadable, err = m.store.UnreadableRights(ctx)
	}
	if err != nil {
		klog.V(2).InfoS("The states of clusters are not known", "err", err)
		states = nil
	}
	uids, err := m.store.ClusterUIDs(ctx)
	if err != nil {
		klog.V(2).InfoS("It is not known which clusters the database has", "err", err)
		uids = nil
	}
	m.setRights(ctx, wanted, uids) // first, as it may take rights away
	waiting, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	var over []string
	for name, r := range m.running {
		if wanted[name] == nil && r.ended(waiting) {
			over = append(over, name)
		}
	}
	m.forgetMembers(ctx, over)
	for _, name := range slices.Sorted(maps.Keys(wanted)) { // which of too many Secrets are followed stays the same
		cluster := wanted[name]
		if m.removals.going(name) || !m.identify(ctx, waiting, cluster, uids) {
			continue
		}
		wanted := &running{party: partyOf(cluster)}
		var missing, unknown error
		wanted.shared, missing = shared(resources, cluster.Spec.SyncResourcesRefName)
		wanted.spec, wanted.permit, unknown = m.credentials.resolve(name, wanted.party, cluster.Spec)
		wanted.invalid = cmp.Or(missing, unknown)
		if r := m.running[name]; r == nil || r.differs(wanted) {
			if r != nil && !r.ended(waiting) {
				continue // the next time
			}
			m.start(ctx, name, wanted)
			m.running[name] = wanted
		}
		m.renew(ctx, cluster)
		m.updateStatus(ctx, cluster, states, unreadable[name])
	}
	m.credentials.objects.Sweep()
}

// forgetMembers removes clusters whose members have ended. What is not removed soon goes on beside all else.
func (m *Controller) forgetMembers(ctx context.Context, names []string) {
	waiting, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	for _, name := range names {
		if name == m.Hub || !m.shards.Mine(name) || m.removals.remove(ctx, waiting, name) {
			delete(m.running, name)
			m.renewals.forget(name)
			m.copying.Limiter.Forget(name)
		}
	}
}

// differs reports whether a member must be started anew to be as wanted.
func (r *running) differs(wanted *running) bool {
	if wanted.invalid != nil || r.unresolved {
		return !r.unresolved || r.invalid.Error() != fmt.Sprint(wanted.invalid)
	}
	spec := wanted.spec
	spec.ShardingName = r.spec.ShardingName // it has no effect
	return !reflect.DeepEqual(r.spec, spec) || !reflect.DeepEqual(r.permit, wanted.permit) || r.party != wanted.party ||
		!equality.Semantic.DeepEqual(r.shared, wanted.shared)
}

// shared returns the resources of a ClusterSyncResources.
func shared(all map[string]*unstructured.Unstructured, name string) ([]v1alpha2.GroupResources, error) {
	if name == "" {
		return nil, nil
	}
	if all[name] == nil {
		return nil, fmt.Errorf("syncResourcesRefName: there is no ClusterSyncResources %s", name)
	}
	var resources v1alpha2.ClusterSyncResources
	if err := convert(all[name], &resources); err != nil {
		return nil, fmt.Errorf("ClusterSyncResources %s: %w", name, err)
	}
	return resources.Spec.SyncResources, nil
}

// errLimitedRBAC refuses rights that search could read in part only: ClusterRoles say what many RoleBindings grant.
var errLimitedRBAC = errors.New(
	"memberRBAC needs the ClusterRoles of the cluster, which search does not read with namespaces: leave out one of them")

// start starts a member, unless something is wrong with its spec.
func (m *Controller) start(ctx context.Context, name string, r *running) {
	r.apiServer, r.unresolved = r.spec.APIServer, r.invalid != nil
	config, err := configOf(&r.spec)
	switch {
	case r.unresolved:
	case name == m.Hub:
		r.invalid = fmt.Errorf("%s is the name of the cluster that search is part of, which it copies anyway (--hub-cluster)", m.Hub)
	case err != nil:
		r.invalid = err
	}
	if r.invalid == nil && r.permit != nil {
		r.invalid = r.permit.check(name, config.Host)
	}
	if r.invalid == nil {
		r.apiServer = config.Host
		_, r.invalid = policyOf(&r.spec, r.party)
	}
	if r.invalid == nil {
		r.invalid = m.copying.Limiter.CheckConfig(config)
	}
	if r.invalid == nil {
		copying := m.copying
		copying.Party = r.party
		r.Member, r.invalid = member.New(name, config, rulesOf(&r.spec, r.shared), copying)
	}
	if r.invalid == nil {
		if r.invalid = r.Only(r.spec.Namespaces...); r.invalid != nil {
			r.Member = nil
		}
	}
	if r.invalid != nil {
		return
	}
	ctx, r.end = context.WithCancel(ctx)
	r.done = make(chan struct{})
	go func() {
		defer close(r.done)
		r.Run(ctx)
	}()
}

// stopTime is how long reconciliation waits for members to end. Requests of a slow cluster that client-go does not cancel may last longer.
const stopTime = time.Second

// ended has a member end, and reports whether it has when it does or the context ends. One that takes its time keeps no other waiting.
func (r *running) ended(ctx context.Context) bool {
	if r.end == nil {
		return true
	}
	r.end()
	select {
	case <-r.done:
		return true
	case <-ctx.Done():
	}
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// stop ends all members at the same time, and waits for them.
func (m *Controller) stop() {
	for _, r := range m.running {
		if r.end != nil {
			r.end()
		}
	}
	for _, r := range m.running {
		if r.end != nil {
			<-r.done
		}
	}
}

// updateStatus writes the status of a cluster if it has changed. One replica does that for all that copy the cluster. States are nil if the
// database is away.
func (m *Controller) updateStatus(ctx context.Context, cluster *v1alpha2.PediaCluster, states map[string]streams.State,
	unreadable []access.Unreadable) {
	r := m.running[cluster.Name]
	if !m.shards.Mine(cluster.Name) {
		r.written = nil
		return
	}
	var health member.Health
	var streams []member.Status
	if r.Member != nil {
		health, streams = r.Status()
		if !m.shards.Alone() {
			var err error
			if streams, err = member.StreamStatuses(ctx, m.store, cluster.Name); err != nil {
				klog.V(2).InfoS("The state of a cluster is not known", "cluster", cluster.Name, "err", err)
				return
			}
		}
	}
	status := statusOf(cluster.Status, cluster.Generation, r.apiServer, r.invalid, health, streams)
	if state, known := states[cluster.Name]; states != nil && r.invalid == nil {
		setFresh(&status, cluster.Generation, state, known)
		tooLarge := ""
		if m.TooLarge != nil {
			tooLarge = m.TooLarge(cluster.Name)
		}
		setReadable(&status, cluster, unreadable, tooLarge)
	}
	m.renewals.setCondition(&status, cluster)
	without := status
	if without.SyncResources = cluster.Status.SyncResources; r.written != nil &&
		equality.Semantic.DeepEqual(status.SyncResources, r.written) && equality.Semantic.DeepEqual(without, cluster.Status) {
		return
	}
	patched := status
	patched.Party = "" // which the policies write
	patch, err := json.Marshal(map[string]any{"status": patched})
	if err == nil {
		_, err = m.client.Resource(clusters).Patch(ctx, cluster.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		klog.ErrorS(err, "Cannot report the state of a cluster", "cluster", cluster.Name)
	}
	if r.written = nil; err == nil {
		r.written = append([]v1alpha2.GroupStatus{}, status.SyncResources...)
	}
}

// list returns all objects of a resource.
func (m *Controller) list(resource schema.GroupVersionResource) ([]*unstructured.Unstructured, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.objects.List(resource)
}

// isGone reports whether it is known that a PediaCluster does not exist.
func (m *Controller) isGone(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := m.objects.Of(clusters, "", name)
	return errors.Is(err, hub.ErrNotFound)
}

// read returns the PediaClusters and the ClusterSyncResources. It fails if there are more than search follows: then it is unknown what they
// have become.
func (m *Controller) read() (wanted map[string]*v1alpha2.PediaCluster, shared map[string]*unstructured.Unstructured, err error) {
	defer func() {
		if err == nil {
			m.unread = ""
		} else if text := err.Error(); text != m.unread && errors.Is(err, hub.ErrTooMany) {
			m.unread = text
			klog.ErrorS(err, "Search copies what it has copied, and follows no change of PediaClusters")
		}
	}()
	all, err := m.list(clusters)
	if err != nil {
		return nil, nil, err
	}
	wanted = map[string]*v1alpha2.PediaCluster{}
	for _, object := range all {
		var cluster v1alpha2.PediaCluster
		if err := convert(object, &cluster); err != nil {
			klog.ErrorS(err, "A PediaCluster cannot be read")
			continue
		}
		wanted[cluster.Name] = &cluster
	}
	if all, err = m.list(resources); err != nil {
		return nil, nil, err
	}
	shared = map[string]*unstructured.Unstructured{}
	for _, object := range all {
		shared[object.GetName()] = object
	}
	return wanted, shared, nil
}

// convert reads an object of an informer.
func convert(object *unstructured.Unstructured, into any) error {
	return runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into)
}
