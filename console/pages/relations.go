// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
)

// treeNode is a related object, with what is beyond it.
type treeNode struct {
	Kind, Namespace, Name, Link string
	Nodes                       []treeNode
}

// relationGroup are relations of a type in a direction.
type relationGroup struct {
	Heading string
	Nodes   []treeNode
	// Left says how many more there are.
	Left string
}

// event is one about the object.
type event struct{ Age, Type, Reason, Count, Message string }

// headings say what related objects are to the object of the page: those at which it points, and those that point at it.
var headings = map[v1beta1.RelationType][2]string{
	v1beta1.RelationOwner:           {"Owners", "Owns"},
	v1beta1.RelationSelector:        {"Selects", "Selected by"},
	v1beta1.RelationScaleTarget:     {"Scales", "Scaled by"},
	v1beta1.RelationBackend:         {"Sends requests to", "Gets requests from"},
	v1beta1.RelationService:         {"Uses the Service", "The Service of"},
	v1beta1.RelationGateway:         {"Attached to", "Routes"},
	v1beta1.RelationGatewayClass:    {"Class", "Of this class"},
	v1beta1.RelationIngressClass:    {"Class", "Of this class"},
	v1beta1.RelationTLSSecret:       {"Certificates", "Certificate of"},
	v1beta1.RelationVolume:          {"Mounts", "Mounted by"},
	v1beta1.RelationEnvironment:     {"Environment from", "Environment of"},
	v1beta1.RelationVolumeBinding:   {"Bound to", "Bound by"},
	v1beta1.RelationStorageClass:    {"Storage class", "Of this storage class"},
	v1beta1.RelationServiceAccount:  {"Runs as", "Used by"},
	v1beta1.RelationImagePullSecret: {"Pulls images with", "Pulls images for"},
	v1beta1.RelationPriorityClass:   {"Priority class", "Of this priority class"},
	v1beta1.RelationNode:            {"Runs on", "Runs"},
	v1beta1.RelationRoleRef:         {"Grants", "Granted by"},
	v1beta1.RelationSubject:         {"Grants to", "Grants by"},
}

// relationKey is what a group has in common.
type relationKey struct {
	kind      v1beta1.RelationType
	direction v1beta1.RelationDirection
}

func (k relationKey) heading() string {
	names, known := headings[k.kind]
	switch {
	case known && k.direction == v1beta1.RelationIncoming:
		return names[1]
	case known:
		return names[0]
	case k.direction == v1beta1.RelationIncoming:
		return string(k.kind) + " of"
	}
	return string(k.kind)
}

// relations fills the relations of an object, and the events about it.
func (c *console) relations(ctx context.Context, page *objectPage) error {
	if page.Past != "" {
		return errors.New("search knows those of the present only")
	}
	answer, err := c.hub.Get(ctx, page.path()+"/relations", nil, "application/json")
	if err != nil {
		return err
	}
	var all v1beta1.ObjectRelations
	if err := json.Unmarshal(answer.Body, &all); err != nil {
		return errors.New("search answers with something else than relations")
	}
	page.arrange(&all)
	if all.Incomplete {
		page.Notes = append(page.Notes, "Relations may be missing, because search had too many objects to compare.")
	}
	for i := range all.Events {
		e := &all.Events[i]
		shown := event{Type: e.Type, Reason: e.Reason, Message: e.Message}
		if e.LastSeen != nil {
			shown.Age = ageOf(e.LastSeen.Time)
		}
		if e.Count > 0 {
			shown.Count = fmt.Sprint(e.Count)
		}
		page.Events = append(page.Events, shown)
	}
	return nil
}

// arrange divides relations into groups, in the order of search. The objects at a distance are below those in between.
func (p *objectPage) arrange(all *v1beta1.ObjectRelations) {
	var keys []relationKey
	groups, left := map[relationKey][]*v1beta1.Relation{}, map[relationKey]string{}
	for i := range all.Relations {
		r := &all.Relations[i]
		key := relationKey{r.Type, r.Direction}
		groups[key] = append(groups[key], r)
		keys = append(keys, key)
	}
	for i := range all.LeftOff {
		l := &all.LeftOff[i]
		key := relationKey{l.Type, l.Direction}
		keys = append(keys, key)
		count := fmt.Sprint(l.Count)
		if l.More {
			count = "at least " + count
		}
		left[key] += fmt.Sprintf("Left out: %s %s. ", count, schema.GroupResource{Group: l.Group, Resource: l.Resource})
	}
	seen := map[relationKey]bool{}
	for _, key := range keys {
		if !seen[key] {
			seen[key] = true
			p.Related = append(p.Related, relationGroup{key.heading(), p.tree(groups[key], all.Object), left[key]})
		}
	}
}

func (p *objectPage) node(o *v1beta1.RelatedObject) treeNode {
	id := identity{p.Cluster, o.Group, o.Version, o.Resource, o.Namespace, o.Name}
	return treeNode{
		Kind: kindText(schema.GroupVersionKind{Group: o.Group, Kind: o.Kind}), Namespace: o.Namespace, Name: o.Name, Link: id.Link(),
	}
}

// place identifies an object in its cluster.
type place struct{ group, resource, namespace, name string }

func placeOf(o *v1beta1.RelatedObject) place { return place{o.Group, o.Resource, o.Namespace, o.Name} }

// tree puts related objects below those in between. Each object occurs once, so that owners in a circle end. Search may have left out one
// in between. Then the object is at the top.
func (p *objectPage) tree(all []*v1beta1.Relation, root v1beta1.RelatedObject) []treeNode {
	seen := map[place]bool{placeOf(&root): true}
	var below func(via place, distance int32) []treeNode
	below = func(via place, distance int32) (nodes []treeNode) {
		for _, r := range all {
			from := placeOf(&root)
			if r.Via != nil {
				from = placeOf(r.Via)
			}
			if is := placeOf(&r.Object); r.Distance == distance && from == via && !seen[is] {
				seen[is] = true
				node := p.node(&r.Object)
				node.Nodes = below(is, distance+1)
				nodes = append(nodes, node)
			}
		}
		return nodes
	}
	nodes := below(placeOf(&root), 1)
	rest := slices.DeleteFunc(slices.Clone(all), func(r *v1beta1.Relation) bool { return seen[placeOf(&r.Object)] })
	for _, r := range rest {
		nodes = append(nodes, p.node(&r.Object))
	}
	return nodes
}
