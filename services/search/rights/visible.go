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

// Visible is what a reader may see with a verb, by one state of the rights of each cluster.
type Visible struct {
	reader user.Info
	verb   string
	// everything is set if a grant of the hub is for all that was asked.
	everything bool
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

var _ access.Scope = &Visible{}

// Everything returns what a reader sees by a grant of the hub for all that was asked.
func Everything(reader user.Info) *Visible { return &Visible{reader: reader, everything: true} }

// IsEverything reports whether there are no limits.
func (v *Visible) IsEverything() bool { return v.everything }

// Reader is who sees it.
func (v *Visible) Reader() user.Info { return v.reader }

// Scope returns the limits for store.For.
func (v *Visible) Scope() access.Scope {
	if v.everything {
		return nil
	}
	return v
}

// Granting returns the same with all of a cluster, or all of a resource in it, that the hub grants.
func (v *Visible) Granting(cluster string, only *schema.GroupResource) *Visible {
	granted := maps.Clone(v.granted)
	if granted == nil {
		granted = map[string]*schema.GroupResource{}
	}
	granted[cluster] = only
	return &Visible{
		reader: v.reader, verb: v.verb, everything: v.everything, granted: granted,
		asOf: v.asOf, behind: v.behind, states: v.states, evaluate: v.evaluate, home: v.home, hub: v.hub, knowsHub: v.knowsHub,
	}
}

// AsOf implements access.Scope.
func (v *Visible) AsOf() int64 { return v.asOf }

// Generation implements access.Scope.
func (v *Visible) Generation(cluster string) int64 {
	if state := v.states[cluster]; state != nil {
		return state.generation
	}
	return 0
}

// Hub is the name of the hub if its RBAC counts.
func (v *Visible) Hub() string { return v.home }

// Home implements access.Scope. It is empty if the hub grants the reader nothing: then a change there hides nothing.
func (v *Visible) Home() string {
	if len(v.hub) == 0 {
		return ""
	}
	return v.home
}

// grants returns what a cluster grants the reader.
func (v *Visible) grants(cluster string) grants {
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
	// whole is set if the hub grants everything.
	whole bool
	grants
	part func() *access.Part
}

func (v *Visible) known(cluster string, resource schema.GroupResource) *known {
	of := key{cluster, resource}
	if already, ok := v.about.Load(of); ok {
		return already.(*known)
	}
	k := &known{whole: v.isGranted(cluster, resource)}
	if k.part = func() *access.Part { return access.Whole }; !k.whole {
		k.grants = v.grants(cluster).about(v.verb, resource)
		k.part = sync.OnceValue(func() *access.Part { return k.grants.part(resource) })
	}
	v.about.Store(of, k)
	return k
}

// isGranted reports whether the hub grants a resource of a cluster as a whole.
func (v *Visible) isGranted(cluster string, resource schema.GroupResource) bool {
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

// Part implements access.Scope.
func (v *Visible) Part(cluster string, resource schema.GroupResource) *access.Part {
	if v.everything {
		return access.Whole
	}
	return v.known(cluster, resource).part()
}

// Allows reports whether the reader may see an object. The namespace of an object without one is empty.
func (v *Visible) Allows(cluster string, resource schema.GroupResource, namespace, name string) bool {
	if v.everything {
		return true
	}
	k := v.known(cluster, resource)
	return k.whole || k.allow(namespaceOf(resource, namespace, name), name)
}

// IsWhole reports whether the reader sees all objects of a resource in a cluster by a grant of the hub, whatever the cluster says.
func (v *Visible) IsWhole(cluster string, resource schema.GroupResource) bool {
	return v.everything || v.known(cluster, resource).whole
}

// Reaches reports whether the reader may see some object of a resource, in a cluster, or in any for AllClusters, and in a namespace, or in
// all if that is empty.
func (v *Visible) Reaches(cluster string, resource schema.GroupResource, namespace string) bool {
	if v.everything {
		return true
	}
	clusters := []string{cluster}
	if cluster == AllClusters {
		clusters = v.clusters()
	}
	return slices.ContainsFunc(clusters, func(cluster string) bool {
		part := v.Part(cluster, resource)
		return part != nil && (namespace == "" || part.Reaches(namespace))
	})
}

// Sees reports whether the reader may read anything in a cluster, with any verb.
func (v *Visible) Sees(cluster string) bool {
	if _, is := v.granted[cluster]; is || v.everything || len(v.grants(cluster)) > 0 {
		return true
	}
	return slices.ContainsFunc(v.hub, func(g grant) bool {
		return isAbout(g, cluster) && slices.ContainsFunc(g.rule.Resources, func(name string) bool {
			return name == rbacv1.ResourceAll || name == Resource || strings.HasPrefix(name, Resource+"/")
		})
	})
}

// IsBehind reports whether the reader may be missing what a new right in a cluster shows: this replica has not read what has changed there,
// or anything of its rights yet. Only clusters count whose rights show the reader something, or are not known.
func (v *Visible) IsBehind() bool {
	return slices.ContainsFunc(v.behind, func(name string) bool {
		return !v.isGranted(name, schema.GroupResource{}) && (v.states[name] == nil || len(v.grants(name)) > 0)
	})
}

// KnowsHub reports whether Sees knows the grants of the hub. It does not if search does not copy the hub, or does not count its RBAC.
func (v *Visible) KnowsHub() bool { return v.knowsHub }

// SeesAny reports whether the reader may read anything in any cluster.
func (v *Visible) SeesAny() bool { return v.everything || slices.ContainsFunc(v.clusters(), v.Sees) }

// clusters returns the clusters in which the reader may see something, and AllClusters.
func (v *Visible) clusters() []string {
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

// Same reports whether another Visible shows the same of a resource in the clusters that a choice has.
func (v *Visible) Same(other *Visible, resource schema.GroupResource, has func(cluster string) bool) bool {
	if v.everything || other.everything {
		return v.everything == other.everything
	}
	for _, cluster := range append(v.clusters(), other.clusters()...) {
		if (cluster == AllClusters || has(cluster)) && !v.Part(cluster, resource).Equal(other.Part(cluster, resource)) {
			return false
		}
	}
	return true
}
