// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tripod-k8s/tripod/console/hub"
)

// relationsAnswer is what search answers about the relations of an object.
type relationsAnswer struct {
	Relations  []relation `json:"relations"`
	LeftOff    []leftOff  `json:"leftOff"`
	Events     []event    `json:"events"`
	Incomplete bool       `json:"incomplete"`
}

const (
	outgoing = "Outgoing"
	incoming = "Incoming"
	ownerOf  = "Owner"
)

type relation struct {
	Type      string         `json:"type"`
	Direction string         `json:"direction"`
	Distance  int            `json:"distance"`
	Fields    []string       `json:"fields"`
	Via       *relatedObject `json:"via"`
	Object    relatedObject  `json:"object"`
}

type relatedObject struct {
	Group     string    `json:"group"`
	Version   string    `json:"version"`
	Kind      string    `json:"kind"`
	Resource  string    `json:"resource"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
}

type leftOff struct {
	Type      string `json:"type"`
	Direction string `json:"direction"`
	Group     string `json:"group"`
	Resource  string `json:"resource"`
	Count     int    `json:"count"`
	More      bool   `json:"more"`
}

// event is one about the object.
type event struct {
	Type     string    `json:"type"`
	Reason   string    `json:"reason"`
	Message  string    `json:"message"`
	Count    int       `json:"count"`
	LastSeen time.Time `json:"lastSeen"`
}

// Age is how long ago it was seen.
func (e event) Age() string { return ageOf(e.LastSeen) }

// treeNode is an owner or an owned object, with what is beyond it.
type treeNode struct {
	Kind, Namespace, Name, Link string
	Nodes                       []treeNode
}

// relationGroup are relations of a kind.
type relationGroup struct {
	Heading string
	Nodes   []treeNode
	// Left is how many more there are, as a text.
	Left string
}

// headings say what related objects are to the object of the page.
var headings = map[[2]string]string{
	{ownerOf, outgoing}:          "Owners",
	{ownerOf, incoming}:          "Owns",
	{"Selector", outgoing}:       "Selects",
	{"Selector", incoming}:       "Selected by",
	{"ScaleTarget", outgoing}:    "Scales",
	{"ScaleTarget", incoming}:    "Scaled by",
	{"Volume", outgoing}:         "Mounts",
	{"Volume", incoming}:         "Mounted by",
	{"Environment", outgoing}:    "Takes its environment from",
	{"Environment", incoming}:    "Gives its environment to",
	{"ServiceAccount", outgoing}: "Runs as",
	{"ServiceAccount", incoming}: "Used by",
	{"Node", outgoing}:           "Runs on",
	{"Node", incoming}:           "Runs",
	{"Backend", outgoing}:        "Sends requests to",
	{"Backend", incoming}:        "Gets requests from",
	{"RoleRef", outgoing}:        "Grants",
	{"RoleRef", incoming}:        "Granted by",
	{"Subject", outgoing}:        "Grants to",
	{"Subject", incoming}:        "Has grants by",
}

func heading(kind, direction string) string {
	if text := headings[[2]string{kind, direction}]; text != "" {
		return text
	}
	if direction == incoming {
		return kind + " of"
	}
	return kind
}

// relations fills the relations of an object. A search of an older version knows owners only.
func (c *console) relations(ctx context.Context, page *objectPage, content *unstructured.Unstructured) error {
	if page.Past != "" {
		return errors.New("these are of the present: open the object without a moment")
	}
	var all relationsAnswer
	answer, err := c.hub.Get(ctx, page.path()+"/relations", nil, "application/json")
	switch answered := (*hub.Error)(nil); {
	case err == nil:
		if err := json.Unmarshal(answer.Body, &all); err != nil {
			return errors.New("search answers with something else than relations")
		}
	case errors.As(err, &answered) && (answered.Code == http.StatusNotFound || answered.Code == http.StatusMethodNotAllowed):
		if all, err = c.owners(ctx, page.identity, content); err != nil {
			return err
		}
	default:
		return err
	}
	page.arrange(&all, content.GetUID())
	if all.Incomplete {
		page.Notes = append(page.Notes, "Relations may be missing: this object has very many.")
	}
	return nil
}

// arrange divides relations into trees and groups.
func (p *objectPage) arrange(all *relationsAnswer, root types.UID) {
	p.Events = all.Events
	p.Owners, p.Owned = p.tree(all.Relations, outgoing, root), p.tree(all.Relations, incoming, root)
	groups := map[[2]string]*relationGroup{}
	group := func(kind, direction string) *relationGroup {
		key := [2]string{kind, direction}
		if groups[key] == nil {
			groups[key] = &relationGroup{Heading: heading(kind, direction)}
		}
		return groups[key]
	}
	for i := range all.Relations {
		if r := &all.Relations[i]; r.Type != ownerOf {
			g := group(r.Type, r.Direction)
			g.Nodes = append(g.Nodes, p.node(&r.Object))
		}
	}
	for _, left := range all.LeftOff {
		g := group(left.Type, left.Direction)
		more := ""
		if left.More {
			more = "at least "
		}
		resource := schema.GroupResource{Group: left.Group, Resource: left.Resource}
		g.Left += fmt.Sprintf("%s%d more %s. ", more, left.Count, resource)
	}
	for _, g := range groups {
		p.Related = append(p.Related, *g)
	}
	slices.SortFunc(p.Related, func(a, b relationGroup) int { return cmp.Compare(a.Heading, b.Heading) })
}

func (p *objectPage) node(o *relatedObject) treeNode {
	id := identity{p.Cluster, o.Group, o.Version, o.Resource, o.Namespace, o.Name}
	node := treeNode{Kind: kindText(schema.GroupVersionKind{Group: o.Group, Kind: o.Kind}), Namespace: o.Namespace, Name: o.Name}
	if o.Resource != "" {
		node.Link = id.Link()
	}
	return node
}

// tree returns the owners or the owned objects of the one with a UID. Each object occurs once, so that owners in a circle end.
func (p *objectPage) tree(all []relation, direction string, root types.UID) []treeNode {
	seen := map[types.UID]bool{root: true}
	var below func(via types.UID, distance int) []treeNode
	below = func(via types.UID, distance int) (nodes []treeNode) {
		var found []*relation
		for i := range all {
			r := &all[i]
			isVia := r.Via == nil && via == root || r.Via != nil && r.Via.UID == via
			if r.Type == ownerOf && r.Direction == direction && r.Distance == distance && isVia && !seen[r.Object.UID] {
				seen[r.Object.UID] = true
				found = append(found, r)
			}
		}
		for _, r := range found {
			node := p.node(&r.Object)
			node.Nodes = below(r.Object.UID, distance+1)
			nodes = append(nodes, node)
		}
		return nodes
	}
	return below(root, 1)
}

// Bounds of owners that are read one by one.
const (
	maxOwnerDepth = 3
	maxOwners     = 10
	maxOwned      = 50
)

// owners returns relations of owners by the parameters of a search that does not serve relations.
func (c *console) owners(ctx context.Context, id identity, content *unstructured.Unstructured) (all relationsAnswer, err error) {
	from, via := []*unstructured.Unstructured{content}, map[types.UID]*relatedObject{content.GetUID(): nil}
	for distance := 1; distance <= maxOwnerDepth && len(all.Relations) < maxOwners; distance++ {
		var next []*unstructured.Unstructured
		for _, object := range from {
			for _, owner := range c.ownersOf(ctx, id, object) {
				if _, known := via[owner.UID]; known || len(all.Relations) >= maxOwners {
					continue
				}
				r := relation{Type: ownerOf, Direction: outgoing, Distance: distance, Via: via[object.GetUID()], Object: owner.relatedObject}
				all.Relations = append(all.Relations, r)
				via[owner.UID] = &r.Object
				next = append(next, owner.content)
			}
		}
		from = next
	}
	owned := map[types.UID]*relatedObject{content.GetUID(): nil}
	for generation := range 2 {
		page, err := c.owned(ctx, id.Cluster, content.GetUID(), generation)
		if err != nil {
			return all, err
		}
		for i := range page.Items {
			item := &page.Items[i]
			kind := item.GroupVersionKind()
			r := relation{Type: ownerOf, Direction: incoming, Distance: generation + 1, Object: relatedObject{
				kind.Group, kind.Version, kind.Kind, page.resource(kind), item.Namespace, item.Name, item.UID,
			}}
			for _, reference := range item.OwnerReferences {
				if owner := owned[reference.UID]; owner != nil {
					r.Via = owner
				}
			}
			owned[item.UID] = &r.Object
			all.Relations = append(all.Relations, r)
		}
	}
	return all, nil
}

type foundOwner struct {
	relatedObject
	content *unstructured.Unstructured
}

// ownersOf reads the owners that an object names, and leaves out those that the reader does not find.
func (c *console) ownersOf(ctx context.Context, id identity, object *unstructured.Unstructured) (found []foundOwner) {
	references := object.GetOwnerReferences()
	for _, reference := range references[:min(len(references), maxOwners)] {
		mapping, err := c.hub.OfKind(schema.FromAPIVersionAndKind(reference.APIVersion, reference.Kind))
		if err != nil {
			continue
		}
		resource := mapping.Resource
		owner := identity{id.Cluster, resource.Group, resource.Version, resource.Resource, "", reference.Name}
		if mapping.Scope.Name() == "namespace" {
			owner.Namespace = object.GetNamespace()
		}
		if checked, err := identityOf(owner.values()); err != nil || checked != owner {
			continue
		}
		content, err := c.get(ctx, owner, "")
		if err != nil || content.GetUID() != reference.UID {
			continue
		}
		found = append(found, foundOwner{relatedObject{
			owner.Group, owner.Version, reference.Kind, owner.Resource, owner.Namespace, owner.Name, reference.UID,
		}, content})
	}
	return found
}

// owned finds objects with an owner, in a generation below it.
func (c *console) owned(ctx context.Context, cluster string, owner types.UID, generation int) (*collectionAnswer, error) {
	values := url.Values{
		"groups": {"*"}, "clusters": {cluster}, "ownerUID": {string(owner)}, "ownerSeniority": {fmt.Sprint(generation)},
		"onlyMetadata": {"true"}, "limit": {fmt.Sprint(maxOwned)},
	}
	answer, err := c.hub.Get(ctx, hub.Collections, values, "application/json")
	if err != nil {
		return nil, err
	}
	page := &collectionAnswer{}
	err = json.Unmarshal(answer.Body, page)
	return page, err
}
