// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
	"github.com/tripod-k8s/tripod/services/search/store/access"
)

// pointing is an object of which only what it points at counts.
type pointing struct{ resource, namespace, name, metadata, content string }

func (p pointing) put(t testing.TB, s *Store, cluster string) {
	t.Helper()
	put(t, s, cluster, p.resource, p.namespace, p.name, p.metadata, p.content)
}

var (
	shopResources  = slices.Sorted(maps.Keys(kindsOfShop))
	shopNames      = []string{"a", "b", "default", "123", "true", "x:y", "<z&"}
	shopNamespaces = []string{"one", "two"}
)

// randomPointing returns an object that points at others, as its kind does or as none does.
func randomPointing(r *rand.Rand, resource string) pointing {
	p := pointing{resource: resource, name: pick(r, shopNames)}
	if kindsOfShop[resource].Namespaced {
		p.namespace = pick(r, shopNamespaces)
	}
	var metadata []string
	if r.IntN(2) == 0 {
		metadata = append(metadata, fmt.Sprintf(`"labels": {"app": %q, "kubernetes.io/service-name": %q}`, pick(r, shopNames[:2]), pick(r, shopNames[:4])))
	}
	if r.IntN(2) == 0 {
		owner, namespace := pick(r, shopResources), p.namespace
		if !kindsOfShop[owner].Namespaced {
			namespace = ""
		} else if r.IntN(4) == 0 {
			namespace = pick(r, shopNamespaces) // a lie, unless it is the same
		}
		metadata = append(metadata, ownedByOne(owner, namespace, pick(r, shopNames)))
	}
	p.metadata = strings.Join(metadata, ", ")
	name := func() string { return fmt.Sprintf("%q", pick(r, shopNames)) }
	namespace := func() string {
		return pick(r, []string{"", `, "namespace": "one"`, `, "namespace": "two"`, `, "namespace": "nowhere"`, `, "namespace": 7`})
	}
	kind := func() string {
		return pick(r, []string{"", `, "kind": "Pod"`, `, "kind": "Role"`, `, "kind": "ClusterRole"`, `, "kind": "ServiceAccount"`, `, "kind": "Gateway"`, `, "kind": "Deployment", "apiVersion": "apps/v1"`, `, "kind": {}`})
	}
	spec := func() string {
		return `"volumes": [{"configMap": {"name": ` + name() + `}}, {"secret": {"secretName": ` + name() + `}}, {"persistentVolumeClaim": {"claimName": ` + name() + `}}, {"projected": {"sources": [{"secret": {"name": ` + name() + `}}]}}, 7, null],
"containers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": ` + name() + `}}}], "envFrom": [{"configMapRef": {"name": ` + name() + `}}]}], "serviceAccountName": ` + name() + `, "nodeName": ` + name() + `, "imagePullSecrets": [{"name": ` + name() + `}, {}]`
	}
	all := []string{`"status": {}`}
	switch resource {
	case "pods":
		all = append(all, `"spec": {`+spec()+`}`)
	case "deployments", "jobs", "replicasets":
		all = append(all, `"spec": {"template": {"spec": {`+spec()+`}}}`)
	case "services":
		all = append(all, `"spec": {"selector": {"app": `+name()+`}}`, `"spec": {"selector": {}}`, `"spec": {"selector": "a"}`)
	case "networkpolicies":
		all = append(all, `"spec": {"podSelector": {}}`, `"spec": {"podSelector": {"matchLabels": {"app": "a"}}}`, `"spec": {"podSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}`)
	case "poddisruptionbudgets":
		all = append(all, `"spec": {"selector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]}}`, `"spec": {"selector": {"matchExpressions": [{"key": "app", "operator": "Strange"}]}}`)
	case "persistentvolumeclaims":
		all = append(all, `"spec": {"volumeName": `+name()+`, "storageClassName": `+name()+`}`)
	case "persistentvolumes":
		all = append(all, `"spec": {"claimRef": {"name": `+name()+namespace()+`}, "storageClassName": `+name()+`}`)
	case "ingresses":
		all = append(all, `"spec": {"tls": [{"secretName": `+name()+`}], "defaultBackend": {"service": {"name": `+name()+`}}}`, `"spec": {"rules": [{"http": {"paths": [{"backend": {"service": {"name": `+name()+`}}}]}}]}`)
	case "endpointslices":
		all = append(all, `"endpoints": [{"targetRef": {"name": `+name()+kind()+`}}]`)
	case "horizontalpodautoscalers":
		all = append(all, `"spec": {"scaleTargetRef": {"name": `+name()+kind()+`}}`)
	case "rolebindings", "clusterrolebindings":
		all = append(all, `"roleRef": {"name": `+name()+kind()+`}, "subjects": [{"name": `+name()+namespace()+kind()+`}]`)
	case "apiservices":
		all = append(all, `"spec": {"service": {"name": `+name()+namespace()+`}}`)
	case "mutatingwebhookconfigurations":
		all = append(all, `"webhooks": [{"clientConfig": {"service": {"name": `+name()+namespace()+`}}}]`)
	case "httproutes":
		all = append(all, `"spec": {"parentRefs": [{"name": `+name()+namespace()+kind()+`}], "rules": [{"backendRefs": [{"name": `+name()+namespace()+kind()+`}]}]}`)
	case "gateways":
		all = append(all, `"spec": {"listeners": [{"tls": {"certificateRefs": [{"name": `+name()+namespace()+`}]}}]}`)
	}
	p.content = pick(r, all)
	if len(all) > 1 && r.IntN(4) > 0 {
		p.content = pick(r, all[1:])
	}
	return p
}

// randomShop returns objects, each name of a resource once.
func randomShop(r *rand.Rand) (all []pointing) {
	seen := map[[3]string]bool{}
	for _, resource := range shopResources {
		for range 5 {
			p := randomPointing(r, resource)
			if key := [3]string{resource, p.namespace, p.name}; !seen[key] {
				seen[key] = true
				all = append(all, p)
			}
		}
	}
	return all
}

// TestRelationsAreSeenFromBothEnds holds that an object points at another one if and only if the other one has it among its referrers, and
// that all databases have the same relations.
func TestRelationsAreSeenFromBothEnds(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	var first []string
	each(t, func(t *testing.T, s *Store) {
		all := randomShop(rand.New(rand.NewPCG(seed, 0)))
		for _, p := range all {
			p.put(t, s, "east")
		}
		outgoing, incoming, texts := sets.New[string](), sets.New[string](), []string{}
		for _, p := range all {
			name := p.resource + " " + p.namespace + "/" + p.name
			_, answer := related(t, s, nil, "east", p.resource, p.namespace, p.name, func(q *RelationsQuestion) { q.Depth, q.Limit = 1, 10_000 })
			require.Empty(t, answer.LeftOff)
			for _, r := range answer.Relations {
				other := r.Object.Resource + " " + r.Object.Namespace + "/" + r.Object.Name
				if r.Direction == v1beta1.RelationOutgoing {
					outgoing.Insert(fmt.Sprint(r.Type, " ", name, " ", other, " ", r.Fields))
				} else {
					incoming.Insert(fmt.Sprint(r.Type, " ", other, " ", name, " ", r.Fields))
				}
			}
			texts = append(texts, fmt.Sprint(name, answer.Relations, answer.Incomplete))
		}
		assert.Equal(t, sets.List(outgoing), sets.List(incoming), "seed %d", seed)
		assert.Greater(t, len(outgoing), 50, "few relations: seed %d", seed)
		if first == nil {
			first = texts
		}
		assert.Equal(t, first, texts, "seed %d", seed)
	})
}

// TestRelationsTellNothingOfOtherObjects holds that an answer to a reader is the one that a cluster without all other objects would have given.
func TestRelationsTellNothingOfOtherObjects(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		seed := uint64(time.Now().UnixNano())
		r := rand.New(rand.NewPCG(seed, 0))
		all := randomShop(r)
		for _, p := range all {
			p.put(t, s, "east")
		}
		some := 0
		for round := range 4 {
			filter := given{asOf: lastRights(t, s), parts: map[string]*access.ObjectSet{}}
			for resource, kind := range kindsOfShop {
				filter.parts["east "+kind.GroupResource().String()] = randomShopPart(r, all, resource)
			}
			cluster := fmt.Sprint("seen-", round)
			for _, resource := range shopResources { // in the same order
				openStream(t, s, cluster, kindsOfShop[resource])
			}
			var seen []pointing
			for _, p := range all {
				if filter.ObjectSet("east", kindsOfShop[p.resource].GroupResource()).Has(p.namespace, p.name) {
					p.put(t, s, cluster)
					seen = append(seen, p)
				}
			}
			filter.asOf = lastRights(t, s)
			for range 40 {
				if len(seen) == 0 {
					break
				}
				p := pick(r, seen)
				change := func(q *RelationsQuestion) { q.Limit = 1 + int(seed%7); q.Depth = 1 + int(seed%4) }
				_, want := related(t, s, nil, cluster, p.resource, p.namespace, p.name, change)
				_, got := related(t, s, filter, "east", p.resource, p.namespace, p.name, change)
				got.ID, got.Revision = want.ID, want.Revision
				require.Equal(t, want, got, "seed %d", seed)
				some += len(got.Relations)
			}
		}
		assert.Greater(t, some, 20, "few relations: seed %d", seed)
	})
}

func randomShopPart(r *rand.Rand, all []pointing, resource string) *access.ObjectSet {
	namespaces, names, objects := sets.New[string](), sets.New[string](), sets.New[[2]string]()
	switch r.IntN(5) {
	case 0:
		return nil
	case 1, 2:
		return access.AllObjects
	case 3:
		namespaces.Insert(pick(r, shopNamespaces))
	}
	for _, p := range all {
		if p.resource == resource && r.IntN(3) == 0 {
			objects.Insert([2]string{p.namespace, p.name})
		}
	}
	if r.IntN(3) == 0 {
		names.Insert(pick(r, shopNames))
	}
	return objectSetOf(namespaces, names, objects)
}
