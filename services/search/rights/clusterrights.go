// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tripod-k8s/tripod/services/search/parties"
	"github.com/tripod-k8s/tripod/services/search/store/access"
)

// limits bound the memory of the RBAC objects of a cluster. A user who may write Roles and RoleBindings in one namespace must not close
// others by too many of them.
type limits struct {
	// cluster is about ClusterRoles and ClusterRoleBindings. If they are more, the cluster is closed.
	cluster int
	// namespace is about the Roles and RoleBindings of one namespace. If they are more, the namespace is closed.
	namespace int
	// namespaces is about those of all. If they are more, the namespaces with most are closed, until an eighth is free again.
	namespaces int
	// closed is how many namespaces are closed at most, before the cluster is.
	closed int
	// pause is how long what is closed for its size stays so: to look at it again, search reads the whole cluster.
	pause time.Duration
	// all is about those of all clusters. If they are more, some are closed, for pauseOfAll: see pool.
	all        int
	pauseOfAll time.Duration
}

var defaultLimits = limits{
	cluster: 32 << 20, namespace: 16 << 20, namespaces: 64 << 20, closed: 1000, pause: 10 * time.Second, all: Memory,
	pauseOfAll: 5 * time.Minute,
}

// restOfReads bounds which part of the time reads of one cluster take a slot from others: after a read, a cluster waits as many times as
// long as it took. maxRest bounds that, because readers with grants in the cluster wait for it.
const (
	restOfReads = 5
	maxRest     = 2 * time.Second
)

// clusterWide stands for ClusterRoles and ClusterRoleBindings among namespaces.
const clusterWide = ""

// clusterRights are the rights in a cluster.
type clusterRights struct {
	name   string
	limits limits
	// state is what was read last, or nil.
	state atomic.Pointer[cluster]

	place

	// The fields below are those of who has locked own, and ended and took those of one read at a time.
	clusterID int64
	objects   map[int64]object
	// used is the memory of the objects by namespace, usedInAll that of all namespaces, and most that of the largest, or more.
	used            map[string]int
	usedInAll, most int
	// closed are namespaces with too many objects, which are not kept. whole is when all objects were read last.
	closed map[string]string
	whole  time.Time
	// ended is when the last read ended, and took how long it took.
	ended time.Time
	took  time.Duration
}

type object struct {
	metav1.Object
	namespace string
	bytes     int
	// wrong is why the object cannot be read, or empty.
	wrong string
}

// isOf reports whether a member is what the store had at a moment, or later.
func (m *clusterRights) isOf(now *index) bool {
	state := m.state.Load()
	if state == nil || state.recheck && time.Since(state.began) > m.pause() {
		return false
	}
	return state.generation == now.Generations[m.name] || state.began.After(now.began)
}

// read reads what has changed in a cluster. Whatever is wrong with its objects closes their namespace, or the cluster, and is no error.
func (r *Rights) read(ctx context.Context, m *clusterRights) error {
	err := r.readAlone(ctx, m)
	r.pool.makeRoom(nil) // others may have counted on this member while it was being read
	return err
}

func (r *Rights) readAlone(ctx context.Context, m *clusterRights) error {
	if err := r.turn(ctx, m); err != nil {
		return err
	}
	m.own.Lock()
	defer m.own.Unlock()
	before := m.state.Load()
	state := newCluster(r.serial.Add(1), nil)
	state.began = time.Now()
	defer func() {
		m.ended = time.Now()
		m.took = m.ended.Sub(state.began)
		<-r.slots
	}()
	err := r.store.ReadRights(ctx, m.name, func(from *access.RightsReading) error {
		state.generation = from.Generation
		who, wrong := decodePolicy(from.Policy)
		if wrong == nil {
			state.identities, m.party, m.home = who, parties.Of(m.name, who.policy.Party), who.policy.Home
		}
		if err := m.update(ctx, before, from); err != nil {
			return err
		}
		if m.add(m, 0); wrong != nil {
			state.unknown = "its policy of rights is wrong: " + wrong.Error()
			return nil //nolint:nilerr // it closes the cluster
		}
		m.fill(state, from)
		return nil
	})
	if err != nil || !r.has(m) {
		m.forget()
		return err
	}
	state.log(m.name, before)
	m.state.Store(state)
	r.countClosed()
	r.grants.replace(m.name, state.serial)
	if before != nil {
		r.changed.Send()
	}
	return nil
}

// turn returns when a cluster may be read, with a slot.
func (r *Rights) turn(ctx context.Context, m *clusterRights) error {
	rest := time.NewTimer(m.rest(time.Now()))
	defer rest.Stop()
	select {
	case <-rest.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case r.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// rest is how long a cluster waits for its next read.
func (m *clusterRights) rest(now time.Time) time.Duration {
	return min(restOfReads*m.took, maxRest) - now.Sub(m.ended)
}

// forget has the next read begin from nothing.
func (m *clusterRights) forget() {
	for _, bytes := range m.used {
		m.add(m, -bytes)
	}
	m.clusterID, m.objects, m.used, m.usedInAll, m.most, m.closed = 0, nil, nil, 0, 0, nil
}

// update reads the objects that have changed since a state.
func (m *clusterRights) update(ctx context.Context, before *cluster, from *access.RightsReading) error {
	after := int64(0)
	if before != nil && m.objects != nil && m.clusterID == from.ClusterID && (len(m.closed) == 0 || time.Since(m.whole) < m.pause()) {
		after = before.generation
	}
	if after == 0 {
		m.forget()
		m.gaveWay.Store(false)
		m.objects, m.used, m.closed, m.whole = map[int64]object{}, map[string]int{}, map[string]string{}, time.Now()
	}
	m.clusterID = from.ClusterID
	there := map[int64]bool{}
	whole, gone, err := from.Changes(ctx, after, func(o access.RBACObject) error {
		m.remove(o.ID)
		m.put(o)
		if _, kept := m.objects[o.ID]; kept {
			there[o.ID] = true
		}
		return nil
	})
	if whole {
		for id := range m.objects {
			if !there[id] {
				gone = append(gone, id)
			}
		}
	}
	for _, id := range gone {
		m.remove(id)
	}
	return err
}

func (m *clusterRights) remove(id int64) {
	o, kept := m.objects[id]
	if !kept {
		return
	}
	delete(m.objects, id)
	if m.used[o.namespace] -= o.bytes; m.used[o.namespace] == 0 {
		delete(m.used, o.namespace)
	}
	m.add(m, -o.bytes)
	if o.namespace != clusterWide {
		m.usedInAll -= o.bytes
	}
}

// put keeps an object, or closes namespaces if there is no room.
func (m *clusterRights) put(o access.RBACObject) {
	namespace := clusterWide
	if o.Resource == "roles" || o.Resource == "rolebindings" {
		namespace = o.Namespace
	}
	if m.closed[clusterWide] != "" || m.closed[namespace] != "" {
		return
	}
	kept := object{namespace: namespace, bytes: bytesOfObject}
	if decoded, err := access.DecodeRBAC(o.Resource, o.JSON); err != nil {
		kept.wrong = fmt.Sprintf("%s %s: %.500s", o.Resource, strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"), err)
		kept.bytes += len(kept.wrong)
	} else {
		decoded.SetNamespace(o.Namespace)
		decoded.SetName(o.Name)
		kept.Object = decoded
		kept.bytes += bytesOf(decoded)
	}
	m.objects[o.ID] = kept
	m.used[namespace] += kept.bytes
	if namespace != clusterWide {
		m.usedInAll += kept.bytes
		m.most = max(m.most, m.used[namespace])
	}
	m.add(m, kept.bytes)
	m.makeRoom(namespace)
	m.pool.makeRoom(m)
}

// makeRoom closes a namespace that has too much, and those with most while all of them have too much.
func (m *clusterRights) makeRoom(namespace string) {
	switch {
	case namespace == clusterWide && m.used[clusterWide] > m.limits.cluster:
		m.close(fmt.Sprintf("its ClusterRoles and ClusterRoleBindings take more than %d KiB", m.limits.cluster>>10), clusterWide)
	case namespace != clusterWide && m.used[namespace] > m.limits.namespace:
		m.close(fmt.Sprintf("its Roles and RoleBindings take more than %d KiB", m.limits.namespace>>10), namespace)
	}
	if m.usedInAll <= m.limits.namespaces {
		return
	}
	var largest []string
	room := m.limits.namespaces - m.limits.namespaces/8 // once for many objects
	least := m.usedInAll
	for _, name := range slices.SortedFunc(maps.Keys(m.used), func(a, b string) int { return cmp.Compare(m.used[b], m.used[a]) }) {
		if name != clusterWide && least > room {
			largest = append(largest, name)
			least -= m.used[name]
		}
	}
	m.close(fmt.Sprintf("the Roles and RoleBindings of all namespaces take more than %d KiB, and this one has most", m.limits.namespaces>>10),
		largest...)
}

// close forgets the objects of namespaces.
func (m *clusterRights) close(why string, namespaces ...string) {
	for _, namespace := range namespaces {
		m.closed[namespace] = why
	}
	if len(m.closed) > m.limits.closed {
		m.closed[clusterWide] = fmt.Sprintf("more than %d of its namespaces have too many Roles and RoleBindings", m.limits.closed)
	}
	for id, o := range m.objects {
		if m.closed[o.namespace] != "" || m.closed[clusterWide] != "" {
			m.remove(id)
		}
	}
}

// fill makes a state of what a member has. What is wrong with it closes namespaces, or the cluster.
func (m *clusterRights) fill(state *cluster, from *access.RightsReading) {
	unknown := ""
	if missing := Resources.Clone().Delete(from.Listed...); len(missing) > 0 {
		unknown = "its RBAC objects were not all received yet"
	} else if from.Closed != "" {
		unknown = "it is not known what has become of its RBAC objects: " + from.Closed
	}
	state.recheck = len(m.closed) > 0 && (m.whole.Before(state.began) || m.gaveWay.Load())
	m.fillWith(state, unknown)
}

// fillWith makes a state of the objects that a member keeps. unknown says why nothing is known of the cluster, and is empty otherwise.
func (m *clusterRights) fillWith(state *cluster, unknown string) {
	state.tooLarge, state.closed = maps.Clone(m.closed), maps.Clone(m.closed)
	for _, o := range m.objects {
		if o.wrong != "" {
			state.closed[o.namespace] = "an object cannot be read: " + o.wrong
		}
	}
	state.unknown = cmp.Or(unknown, state.closed[clusterWide])
	for _, o := range m.objects {
		if state.closed[o.namespace] == "" {
			state.add(o.Object)
		}
	}
	state.index()
}

// The memory of RBAC objects, about.
const (
	bytesOfObject  = 512
	bytesOfRule    = 128
	bytesOfSubject = 256 // with its place in the index of subjects
	bytesOfText    = 32
)

// bytesOf returns about how much memory an object takes.
func bytesOf(o metav1.Object) (n int) {
	texts := func(all ...string) {
		for _, text := range all {
			n += bytesOfText + len(text)
		}
	}
	rules := func(rules []rbacv1.PolicyRule) {
		for _, rule := range rules {
			n += bytesOfRule
			texts(rule.Verbs...)
			texts(rule.APIGroups...)
			texts(rule.Resources...)
			texts(rule.ResourceNames...)
		}
	}
	subjects := func(to rbacv1.RoleRef, subjects []rbacv1.Subject) {
		texts(to.APIGroup, to.Kind, to.Name)
		for _, s := range subjects {
			n += bytesOfSubject
			texts(s.APIGroup, s.Kind, s.Namespace, s.Name)
		}
	}
	switch o := o.(type) {
	case *rbacv1.Role:
		rules(o.Rules)
	case *rbacv1.ClusterRole:
		rules(o.Rules)
	case *rbacv1.RoleBinding:
		subjects(o.RoleRef, o.Subjects)
	case *rbacv1.ClusterRoleBinding:
		subjects(o.RoleRef, o.Subjects)
	}
	return n
}
