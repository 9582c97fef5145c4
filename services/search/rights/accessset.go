// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"maps"
	"slices"
	"strings"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	rbacv1helpers "k8s.io/kubernetes/pkg/apis/rbac/v1"

	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
	"github.com/tripod-k8s/tripod/services/search/store/access"
)

// AccessSet has what a reader may read with a verb, by one state of the rights of each cluster.
type AccessSet struct {
	reader user.Info
	verb   string
	// unlimited is set if a grant of the hub is for all that was asked.
	unlimited bool
	// granted are clusters of which the hub grants everything, or one resource if that is not nil. AllClusters may be among them.
	granted map[string]*schema.GroupResource

	// asOf is the last change of rights in any cluster that is known here, or -1.
	asOf int64
	// behind are clusters whose rights are older than [recent] here.
	behind []string
	// states are those of all clusters with rights, and evaluate returns what one grants the reader. It is called once for each cluster that
	// is asked about.
	states   map[string]*cluster
	evaluate func(name string, state *cluster) grants
	// home is the name of the hub, which has grants for other clusters, too. hub are these grants.
	home string
	hub  grants
	// knowsHub is set if hub has what the RBAC of the hub grants.
	knowsHub bool
	// about has the grants of a resource in a cluster, as they are asked for, and evaluated all grants of a cluster.
	about, evaluated sync.Map
}

var _ access.Filter = &AccessSet{}

// Unlimited returns the access of a reader to whom the hub grants all that was asked.
func Unlimited(reader user.Info) *AccessSet { return &AccessSet{reader: reader, unlimited: true} }

// IsUnlimited reports whether there are no limits.
func (v *AccessSet) IsUnlimited() bool { return v.unlimited }

// Reader is the user whose access it is.
func (v *AccessSet) Reader() user.Info { return v.reader }

// Filter returns the filter for store.For, or nil if there are no limits.
func (v *AccessSet) Filter() access.Filter {
	if v.unlimited {
		return nil
	}
	return v
}

// WithGrant returns the same access with all of a cluster, or all of a resource in it, that the hub grants.
func (v *AccessSet) WithGrant(cluster string, only *schema.GroupResource) *AccessSet {
	granted := maps.Clone(v.granted)
	if granted == nil {
		granted = map[string]*schema.GroupResource{}
	}
	granted[cluster] = only
	return &AccessSet{
		reader: v.reader, verb: v.verb, unlimited: v.unlimited, granted: granted,
		asOf: v.asOf, behind: v.behind, states: v.states, evaluate: v.evaluate, home: v.home, hub: v.hub, knowsHub: v.knowsHub,
	}
}

// AsOf implements access.Filter.
func (v *AccessSet) AsOf() int64 { return v.asOf }

// Generation implements access.Filter.
func (v *AccessSet) Generation(cluster string) int64 {
	if state := v.states[cluster]; state != nil {
		return state.generation
	}
	return 0
}

// Hub is the name of the hub if its RBAC counts.
func (v *AccessSet) Hub() string { return v.home }

// Home implements access.Filter. It is empty if the hub grants the reader nothing: then a change there hides nothing.
func (v *AccessSet) Home() string {
	if len(v.hub) == 0 {
		return ""
	}
	return v.home
}

// grants returns what a cluster grants the reader.
func (v *AccessSet) grants(cluster string) grants {
	state := v.states[cluster]
	if state == nil {
		return nil
	}
	if already, ok := v.evaluated.Load(cluster); ok {
		return already.(grants)
	}
	found := v.evaluate(cluster, state)
	v.evaluated.Store(cluster, found)
	return found
}

// key is a resource in a cluster.
type key struct {
	cluster  string
	resource schema.GroupResource
}

// known is what is known of a resource in a cluster.
type known struct {
	// all is set if the hub grants everything.
	all bool
	grants
	objectSet func() *access.ObjectSet
}

func (v *AccessSet) known(cluster string, resource schema.GroupResource) *known {
	of := key{cluster, resource}
	if already, ok := v.about.Load(of); ok {
		return already.(*known)
	}
	k := &known{all: v.isGranted(cluster, resource)}
	if k.objectSet = func() *access.ObjectSet { return access.AllObjects }; !k.all {
		k.grants = v.grants(cluster).about(v.verb, resource)
		k.objectSet = sync.OnceValue(func() *access.ObjectSet { return k.grants.objectSet(resource) })
	}
	v.about.Store(of, k)
	return k
}

// isGranted reports whether the hub grants a resource of a cluster as a whole.
func (v *AccessSet) isGranted(cluster string, resource schema.GroupResource) bool {
	for _, name := range []string{cluster, AllClusters} {
		if only, is := v.granted[name]; is && (only == nil || *only == resource) {
			return true
		}
	}
	return slices.ContainsFunc(v.hub, func(g grant) bool {
		return isAbout(g, cluster) && rbacv1helpers.VerbMatches(g.rule, v.verb) &&
			(rbacv1helpers.ResourceMatches(g.rule, Resource, "") ||
				rbacv1helpers.ResourceMatches(g.rule, Resource+"/"+resource.String(), resource.String()))
	})
}

// isAbout reports whether a grant of the hub may be about the objects of a cluster.
func isAbout(g grant, cluster string) bool {
	return g.namespaces == nil && rbacv1helpers.APIGroupMatches(g.rule, v1beta1.GroupVersion.Group) &&
		rbacv1helpers.ResourceNameMatches(g.rule, cluster)
}

// Resource is the resource of the hub that stands for the objects of clusters. Its names are those of clusters, and its subresources the
// resources of the cluster, such as resources/deployments.apps.
const Resource = "resources"

// AllClusters stands for all clusters among the names of clusters.
const AllClusters = ""

// ObjectSet implements access.Filter.
func (v *AccessSet) ObjectSet(cluster string, resource schema.GroupResource) *access.ObjectSet {
	if v.unlimited {
		return access.AllObjects
	}
	return v.known(cluster, resource).objectSet()
}

// Allows reports whether the reader may see an object. The namespace of an object without one is empty.
func (v *AccessSet) Allows(cluster string, resource schema.GroupResource, namespace, name string) bool {
	if v.unlimited {
		return true
	}
	k := v.known(cluster, resource)
	return k.all || k.allow(namespaceOf(resource, namespace, name), name)
}

// AllowsAll reports whether the reader may read all objects of a resource in a cluster by a grant of the hub, whatever the cluster says.
func (v *AccessSet) AllowsAll(cluster string, resource schema.GroupResource) bool {
	return v.unlimited || v.known(cluster, resource).all
}

// AllowsAny reports whether the reader may read some object of a resource, in a cluster, or in any for AllClusters, and in a namespace, or
// in all if that is empty.
func (v *AccessSet) AllowsAny(cluster string, resource schema.GroupResource, namespace string) bool {
	if v.unlimited {
		return true
	}
	clusters := []string{cluster}
	if cluster == AllClusters {
		clusters = v.clusters()
	}
	return slices.ContainsFunc(clusters, func(cluster string) bool {
		part := v.ObjectSet(cluster, resource)
		return part != nil && (namespace == "" || part.MayHaveIn(namespace))
	})
}

// AllowsAnyIn reports whether the reader may read anything in a cluster, with any verb.
func (v *AccessSet) AllowsAnyIn(cluster string) bool {
	if _, is := v.granted[cluster]; is || v.unlimited || len(v.grants(cluster)) > 0 {
		return true
	}
	return slices.ContainsFunc(v.hub, func(g grant) bool {
		return isAbout(g, cluster) && slices.ContainsFunc(g.rule.Resources, func(name string) bool {
			return name == rbacv1.ResourceAll || name == Resource || strings.HasPrefix(name, Resource+"/")
		})
	})
}

// IsBehind reports whether the reader may be missing what a new right in a cluster shows: this replica has not read what has changed there,
// or anything of its rights yet. Only clusters count whose rights show the reader something, or are not known. Of the latter, a
// reader who may see nothing elsewhere does not learn.
func (v *AccessSet) IsBehind() bool {
	unread := len(v.states) == 0 || v.AllowsAnywhere()
	return slices.ContainsFunc(v.behind, func(name string) bool {
		return !v.isGranted(name, schema.GroupResource{}) && (v.states[name] == nil && unread || len(v.grants(name)) > 0)
	})
}

// KnowsHub reports whether AllowsAnyIn knows the grants of the hub. It does not if search does not copy the hub, or does not count its
// RBAC.
func (v *AccessSet) KnowsHub() bool { return v.knowsHub }

// AllowsAnywhere reports whether the reader may read anything in any cluster.
func (v *AccessSet) AllowsAnywhere() bool {
	return v.unlimited || slices.ContainsFunc(v.clusters(), v.AllowsAnyIn)
}

// clusters returns the clusters in which the reader may see something, and AllClusters.
func (v *AccessSet) clusters() []string {
	names := sets.New(AllClusters)
	for name := range v.states {
		if len(v.grants(name)) > 0 {
			names.Insert(name)
		}
	}
	for name := range v.granted {
		names.Insert(name)
	}
	for _, g := range v.hub {
		if rbacv1helpers.APIGroupMatches(g.rule, v1beta1.GroupVersion.Group) {
			names.Insert(g.rule.ResourceNames...)
		}
	}
	return sets.List(names)
}

// Same reports whether another AccessSet allows the same of a resource in the clusters that a choice has.
func (v *AccessSet) Same(other *AccessSet, resource schema.GroupResource, has func(cluster string) bool) bool {
	if v.unlimited || other.unlimited {
		return v.unlimited == other.unlimited
	}
	for _, cluster := range append(v.clusters(), other.clusters()...) {
		if (cluster == AllClusters || has(cluster)) && !v.ObjectSet(cluster, resource).Equal(other.ObjectSet(cluster, resource)) {
			return false
		}
	}
	return true
}
