// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// known is an object that a test has written.
type known struct {
	Object
	cluster string
	// clusterID is that of the cluster in the database, by which lists are sorted.
	clusterID int64
	kind      streams.Kind
}

func (k known) String() string { return k.cluster + "/" + k.Namespace + "/" + k.Name }

func (k known) subject() *query.Subject {
	return &query.Subject{Cluster: k.cluster, Namespace: k.Namespace, Name: k.Name, JSON: k.JSON}
}

// population writes random objects.
func population(t *testing.T, s *Store, r *rand.Rand) (all []known) {
	t.Helper()
	uids := []string{"nobody"}
	for _, kind := range []streams.Kind{deployments, replicaSets, pods, nodes, jobs, eventsKind, controllers} { // owners come first
		for _, cluster := range []string{"east", "north", "west"} {
			stream := openStream(t, s, cluster, kind)
			var batch Batch
			for i := range 25 {
				o := randomObject(r, cluster, kind, i, uids)
				o.clusterID = stream.ClusterID
				all = append(all, o)
				batch.Changes = append(batch.Changes, Change{Object: o.Object})
			}
			for _, o := range all[len(all)-25:] {
				uids = append(uids, o.UID)
			}
			require.NoError(t, s.Write(t.Context(), stream, batch))
		}
	}
	return all
}

var (
	labelKeys   = []string{"app", "example.com/tier", "rank", "x.y"}
	labelValues = []string{"", "web", "Web", "db", "7", "007", "12", "99999999999999999999", "9223372036854775807", "a.b_c-d"}
	fieldPaths  = []string{
		"spec.replicas", "spec.node", "spec.Node", "spec.on", "spec.ratio", "spec.number", "status['a.b/c']", "spec.nested", "spec.none", "spec.list[0].image",
		"spec.list[1].image", "spec.missing.x", "spec.node[0]", "spec.list[0]", "spec.list.0.image", "spec.list.image", "spec.numbered.1", "spec.numbered[1]",
		"spec.numbered['-1']", "spec.numbered['~-1']", "spec.numbered['<1']", "spec.\u00e9", "spec.e\u0301", "spec['node ']", "spec.args[0][0]", "spec.args[0]",
		deep(query.MaxSteps), deep(query.MaxSteps - 1), deep(query.MaxSteps-1) + "[0]", "spec.sorted", "spec.moment", "metadata.creationTimestamp",
	}
	listPaths = []string{
		"spec.list[].image", "spec.args[]", "spec.args[][]", "spec.list[].ports[].port", "spec.node[]", "spec.nothing[]", "spec.list[0].ports[].port", "spec.list[].ports[0].port",
		"spec.numbered[]", deep(query.MaxSteps-1) + "[]",
	}
	fieldValues = []string{
		"", " ", "1", "1 ", " 1", "2", "10", "-0", "true", "false", "True", "node-1", "Node-1", "node-1 ", "node-1\t", "node-1\n", "nginx:1", "nginx:2", "it's", `<"%_\>`,
		"\u00e9", "e\u0301", "\u00c9", "\u00df", "ss", "null", "{}", "[]", "a b", "\x01", "\uFFFD", "a\x00b", "a\uFFFDb", "\U0001F600",
	}
	// sortedValues are texts that are numbers in an order, or nearly so.
	sortedValues = []string{
		"5Gi\r", "5Gi\u2028",
		"500m", "0.5", "1Gi", "1.5Gi", "1536Mi", "1024Mi", "1G", "1e9", "5E", "5Ei", "5e1", "5e+1", "5E1", "5E99", "5E100", "-5k", "-5000", "007", "7", "7n", "7u", "1100m", "1.1", "0.3", "300m", "300000u",
		"1e-99", "5m\n", "5m ", "+5", ".5", "5.", "5Mib", "5MI", "5ki", "5K", "1E", "1Ei", "NaN", "inf", "1_000", "\u0661", "0x10", "123456789012345678901234567890", "1234567890123456789012345678901",
		"9007199254740993m", "0.30000000000000004", "0.1234567890123456789012345678901", strings.Repeat("\U0001F600", query.RankLength), strings.Repeat("\U0001F600", query.RankLength) + "a",
		strings.Repeat("a", query.RankLength-1) + "\u00e9b",
	}
	// moments are texts that are times, or nearly so.
	moments = []string{
		"2026-11-25T04:00:00Z\r", "2026-11-25T04:00:00Z\u2028",
		"2026-11-25T04:00:00Z", "2026-11-25T04:00:00.0Z", "2026-11-25T04:00:00.5Z", "2026-11-25T04:00:00.500Z", "2026-11-25T04:00:00.50000001Z", "2026-11-25T04:00:10Z", "2026-11-25T04:00:01Z", "2026-11-25T04:10:00Z",
		"2026-11-25T00:00:00Z", "2026-11-20T00:00:00Z", "2026-10-20T00:00:00.000000Z", "0000-00-00T00:00:00Z", "9999-99-99T99:99:99.999999999Z", "2026-02-30T00:00:00Z", "2026-11-25T05:00:00+01:00", "2026-11-25",
		"2026-11-25T04:00:00Z\n", "2026-11-25T04:00:00Z ", " 2026-11-25T04:00:00Z", "2026-11-25t04:00:00z", "2026-11-25T04:00:00", "2026-11-25T04:00:00.Z", "2026-11-25T04:00:00.1234567890Z", "2026-11-25T04:00:00.5ZZ",
		"\u0662026-11-25T04:00:00Z", "12026-11-25T04:00:00Z",
	}
	// bounds are what fields are compared with.
	bounds = []string{
		"0", "1", "-1", "5", "1.0", "500m", "1Gi", "1536Mi", "-5000", "1e21", "0.3", "9007199254740992", "52.5200066", "123456789012345678901234567890", "5E99", "1e-99", "2026",
		"2026-11-25T04:00:00Z", "2026-11-25T05:00:00.5+01:00", "2026-11-25", "2026-11-25 04:00:10", "now", "now-36500d", "2023-11-14T22:14:00Z", "0000-01-01", "9999-12-31T23:59:59.999999999Z",
	}
	// fieldNumbers are numbers as JSON may write them.
	fieldNumbers = []string{
		"0", "1", "-1", "10", "007"[2:], "1.0", "1.50", "52.520006599999995", "52.5200066", "1e21", "1E21", "1e+21", "1000000000000000000000", "1e-7", "0.0000001", "-0", "0.1",
		"9007199254740993", "9007199254740992", "9223372036854775807", "9223372036854775808", "99999999999999999999", "2147483648", "1e300", "-1e-300", "123456789012345", "1234567890123456",
	}
)

// deep returns a path of some steps.
func deep(steps int) string { return "spec" + strings.Repeat(".d", steps-1) }

// deepValue returns an object with a value at deep, and something below.
func deepValue(r *rand.Rand, value any) any {
	if r.IntN(2) == 0 {
		value = pick(r, []any{map[string]any{"d": value}, []any{value}, []any{[]any{value}}})
	}
	for range pick(r, []int{query.MaxSteps - 3, query.MaxSteps - 2, query.MaxSteps - 1, 45, 1100}) {
		value = map[string]any{"d": value}
	}
	return value
}

// fieldValue returns a text that a requirement of a field compares with.
func fieldValue(r *rand.Rand) string {
	if r.IntN(2) == 0 {
		return pick(r, fieldNumbers)
	}
	return pick(r, fieldValues)
}

func pick[T any](r *rand.Rand, values []T) T { return values[r.IntN(len(values))] }

func randomObject(r *rand.Rand, cluster string, kind streams.Kind, i int, owners []string) known {
	namespace := ""
	if kind.Namespaced {
		namespace = pick(r, []string{"default", "kube-system", "team_a", "Team"})
	}
	name := fmt.Sprintf("%s-%d", pick(r, []string{"web", "nginx", "we%b", "Web", "db"}), i)
	o := known{cluster: cluster, kind: kind, Object: Object{
		Namespace: namespace, Name: name, UID: fmt.Sprintf("%s-%s-%d", cluster, kind.Resource, i), ResourceVersion: fmt.Sprint(r.IntN(2000)),
		CreatedAt: 1_700_000_000 + int64(r.IntN(100)),
	}}
	for _, key := range labelKeys {
		if r.IntN(2) == 0 {
			if o.Labels == nil {
				o.Labels = map[string]string{}
			}
			o.Labels[key] = pick(r, labelValues)
		}
	}
	for range r.IntN(3) {
		o.Owners = append(o.Owners, pick(r, owners))
	}
	spec := map[string]any{"nested": map[string]any{"a": 1}, "none": nil}
	for key, value := range map[string]func() any{
		"replicas": func() any { return r.IntN(12) },
		"node":     func() any { return pick(r, fieldValues) },
		"sorted": func() any {
			return pick(r, []any{pick(r, sortedValues), pick(r, sortedValues), json.Number(pick(r, fieldNumbers)), fieldValue(r), r.IntN(200), true, nil, map[string]any{}})
		},
		"moment": func() any {
			return pick(r, []any{pick(r, moments), pick(r, moments), pick(r, moments), fieldValue(r), 2026, nil, true, []any{"2026-11-25T04:00:00Z"}})
		},
		"on":      func() any { return r.IntN(2) == 0 },
		"ratio":   func() any { return "1" },
		"number":  func() any { return json.Number(pick(r, fieldNumbers)) },
		"Node":    func() any { return pick(r, fieldValues) },
		"node ":   func() any { return pick(r, fieldValues) },
		"\u00e9":  func() any { return pick(r, fieldValues) },
		"e\u0301": func() any { return pick(r, fieldValues) },
		"n\x00":   func() any { return "no path names it" },
		"numbered": func() any {
			return pick(r, []any{map[string]any{"1": "x", "-1": "1", "~-1": "2", "<1": "1"}, []any{"1", "2"}, "1", nil, []any{nil}})
		},
		"d": func() any { return deepValue(r, pick(r, []any{"1", 1, nil, true})) },
		"args": func() any {
			args := []any{}
			for range r.IntN(4) {
				args = append(args, pick(r, []any{pick(r, fieldValues), r.IntN(12), true, json.Number(pick(r, fieldNumbers)), pick(r, moments), nil, []any{"1", 2}, map[string]any{"a": "1"}}))
			}
			return args
		},
		"list": func() any {
			list := []any{}
			for range r.IntN(4) {
				item := map[string]any{"ports": []any{map[string]any{"port": r.IntN(12)}, map[string]any{"other": 1}}}
				if r.IntN(3) > 0 {
					item["image"] = pick(r, fieldValues)
				}
				list = append(list, item)
			}
			return list
		},
	} {
		if r.IntN(3) > 0 {
			spec[key] = value()
		}
	}
	owned := []any{}
	for _, uid := range o.Owners {
		owned = append(owned, map[string]any{"uid": uid})
	}
	apiVersion, kindName := kind.GroupVersionKind().ToAPIVersionAndKind()
	content := map[string]any{
		"apiVersion": apiVersion, "kind": kindName,
		"metadata": map[string]any{
			"namespace": namespace, "name": name, "uid": o.UID, "labels": o.Labels, "ownerReferences": owned, "creationTimestamp": time.Unix(o.CreatedAt, 0).UTC().Format(time.RFC3339),
			"annotations": map[string]string{v1beta1.ResourceVersionAnnotation: o.ResourceVersion},
		},
		"spec": spec, "status": map[string]any{"a.b/c": pick(r, fieldValues)},
	}
	labelFields(r, content, spec)
	images(r, kind, spec)
	var err error
	if o.JSON, err = json.Marshal(content); err != nil {
		panic(err)
	}
	return o
}

// images adds containers, some of them where their kind has none.
func images(r *rand.Rand, kind streams.Kind, spec map[string]any) {
	container := func() any {
		return map[string]any{"image": pick(r, []any{"example.com/Shop/front:1.2", "nginx:1", 7, nil, "it's\u00e9", "\u00c9", "say \"a\\b\"\nBreak"})}
	}
	pod := map[string]any{"containers": []any{container(), container()}, "initContainers": []any{container()}}
	if r.IntN(4) == 0 {
		pod["containers"] = pick(r, []any{nil, "nginx:1", map[string]any{"image": "nginx:1"}})
	}
	if isPod := kind.Resource == "pods"; isPod != (r.IntN(8) == 0) {
		maps.Copy(spec, pod)
		return
	}
	spec["template"] = map[string]any{"spec": pod}
}

// words are somewhere in objects of population, or nearly so.
var words = []string{"web", "shop/front", "nginx:1", "pod", "replica", "deployment", "east", "st", "kube-system", "team_a", "example.com/tier", "007", "db", "%", "_", "'", "\u00e9", "\u00c9", "none", "7", "/", ".", "say", "\"a\\b\"", "break", "t's\u00e9", "e/tier", "\x01nginx", "100%"}

// labelPaths are field labels of Kubernetes that it computes.
var labelPaths = []string{"spec.hostNetwork", "spec.host", "status.podIPs", "spec.unschedulable", "status.successful", "status.replicas", "source", "spec.nodeName"}

// labelFields adds what Kubernetes computes field labels from.
func labelFields(r *rand.Rand, content, spec map[string]any) {
	status := content["status"].(map[string]any)
	for _, field := range []struct {
		in     map[string]any
		name   string
		values []any
	}{
		{spec, "hostNetwork", []any{true, false, nil, ""}}, {spec, "nodeName", []any{"node-1", "2", ""}}, {spec, "host", []any{"node-1", "1"}}, {spec, "unschedulable", []any{true, false}},
		{status, "succeeded", []any{0, 1, 2, nil}}, {status, "successful", []any{1, 10}}, {status, "replicas", []any{0, 1, 2}}, {status, "podIPs", []any{[]any{}, "1", []any{"1"}}},
		{content, "source", []any{map[string]any{}, map[string]any{"component": ""}, map[string]any{"component": "1"}, map[string]any{"component": "node-1"}, "1"}},
		{content, "reportingComponent", []any{"", "1", "node-1"}},
	} {
		if r.IntN(2) == 0 {
			field.in[field.name] = pick(r, field.values)
		}
	}
}

func randomQuery(r *rand.Rand, all []known) query.Query {
	q := query.Query{WithRemaining: true}
	choice := func(values []string) (c query.Choice) {
		for range r.IntN(3) {
			c.In = append(c.In, pick(r, values))
		}
		if r.IntN(3) == 0 {
			c.NotIn = []string{pick(r, values)}
		}
		return c
	}
	if r.IntN(3) == 0 {
		q.Clusters = choice([]string{"east", "west", "north", "nowhere"})
	}
	if r.IntN(3) == 0 {
		q.Namespaces = choice([]string{"default", "kube-system", "team_a", "Team", "teamXa"})
		q.Namespaces.Exists = r.IntN(4) == 0
		q.Namespaces.Missing = r.IntN(8) == 0
	}
	if r.IntN(5) == 0 {
		q.Names = choice([]string{all[r.IntN(len(all))].Name, all[r.IntN(len(all))].Name, "WEB-1"})
	}
	if r.IntN(5) == 0 {
		q.Fuzzy = []string{pick(r, []string{"web", "eb", "Web", "%", "_", "-1", "we%b"})}
	}
	if r.IntN(4) == 0 {
		for range 1 + r.IntN(2) {
			q.Words = append(q.Words, pick(r, words))
		}
	}
	for range r.IntN(3) {
		operator := pick(r, []selection.Operator{selection.Equals, selection.NotEquals, selection.In, selection.NotIn, selection.Exists, selection.DoesNotExist, selection.GreaterThan, selection.LessThan})
		var values []string
		switch operator {
		case selection.Exists, selection.DoesNotExist:
		case selection.GreaterThan, selection.LessThan:
			values = []string{pick(r, []string{"0", "7", "8", "11", "9223372036854775806"})}
		case selection.In, selection.NotIn:
			values = []string{pick(r, labelValues), pick(r, labelValues)}
		default:
			values = []string{pick(r, labelValues)}
		}
		requirement, err := labels.NewRequirement(pick(r, labelKeys), operator, values)
		if err != nil {
			panic(err)
		}
		q.Labels = append(q.Labels, *requirement)
	}
	for range r.IntN(3) {
		q.Fields = append(q.Fields, randomField(r))
	}
	if r.IntN(3) == 0 {
		q.Fields = append(q.Fields, randomBound(r))
	}
	if r.IntN(6) == 0 {
		q.Since = time.Unix(1_700_000_000+int64(r.IntN(100)), int64(r.IntN(2))*500_000_000)
	}
	if r.IntN(6) == 0 {
		q.Before = time.Unix(1_700_000_000+int64(r.IntN(100)), int64(r.IntN(2))*500_000_000)
	}
	if r.IntN(4) == 0 {
		owner := all[r.IntN(len(all))]
		q.Owner = &query.Owner{Seniority: r.IntN(3)}
		if r.IntN(2) == 0 {
			q.Owner.UID = owner.UID
		} else {
			q.Owner.Name = owner.Name
			if r.IntN(2) == 0 {
				q.Owner.Resource = owner.kind.GroupResource()
			}
		}
	}
	for range r.IntN(3) {
		order := query.Order{Descending: r.IntN(2) == 0}
		if r.IntN(2) == 0 {
			parsed, err := query.ParseFields(pick(r, slices.Concat(fieldPaths, []string{"spec.sorted", "spec.sorted", "metadata.name", "metadata.labels['rank']"})))
			if err != nil {
				panic(err)
			}
			order.Path = parsed[0].Paths[0]
		} else {
			order.Column = pick(r, []query.Column{query.Cluster, query.Namespace, query.Name, query.UID, query.CreatedAt, query.ResourceVersion, query.Kind, query.Group})
		}
		q.Order = append(q.Order, order)
	}
	if r.IntN(2) == 0 {
		q.Limit = int64(1 + r.IntN(20))
	}
	if r.IntN(3) == 0 {
		q.Offset = int64(r.IntN(10))
	}
	return q
}

func randomField(r *rand.Rand) query.Field {
	path := pick(r, slices.Concat(fieldPaths, listPaths, labelPaths))
	text := pick(r, []string{`PATH="A"`, `PATH!="A"`, `PATH in ("A", "B")`, `PATH notin ("A", "B")`, "PATH", "!PATH", `PATH contains ("A", "B")`, `PATH icontains ("A", "B")`, `PATH startswith ("A")`,
		`PATH istartswith ("A", "B")`, `!PATH icontains ("A")`, `PATH|spec.node icontains ("A")`, `PATH|spec.on|spec.list[].image in ("A", "B")`, `PATH|spec.replicas!="A"`, "!PATH|spec.on"})
	parsed, err := query.ParseFields(strings.ReplaceAll(text, "PATH", path))
	if err != nil {
		panic(err)
	}
	for i := range parsed[0].Values {
		if parsed[0].Values[i] = fieldValue(r); slices.Contains(labelPaths, path) {
			parsed[0].Values[i] = pick(r, []string{"", "0", "1", "2", "true", "false", "node-1"})
		}
		if parsed[0].Operator == query.Contains || parsed[0].Operator == query.StartsWith {
			parsed[0].Values[i] = pick(r, []string{"n", "N", "e-1", "E-1", "NoDe", "1", " ", "\u00c9", "\u00e9", "\u00df", "S", "%", "_", `\`, "'", "<", "\x00", "\x01", "\uFFFD", "\U0001F600", "0", ".", "-", "nginx:", "X:2"})
		}
	}
	return parsed[0]
}

// randomBound compares a field with a number or a time.
func randomBound(r *rand.Rand) query.Field {
	paths := []string{"spec.replicas", "spec.number", "spec.sorted", "spec.sorted", "spec.moment", "spec.moment", "metadata.creationTimestamp", "spec.args[]", "spec.args[][]", "spec.list[].ports[].port",
		"spec.sorted|spec.moment", "spec.none", "spec.nested", "status.successful", pick(r, fieldPaths), pick(r, listPaths)}
	parsed, err := query.ParseFields(pick(r, paths) + pick(r, []string{">", ">=", "<", "<=", " > ", " <= "}) + pick(r, bounds))
	if err != nil {
		panic(err)
	}
	return parsed[0]
}

// expected returns what a query finds, as watches decide it.
func expected(all []known, q query.Query, kinds []streams.Kind) (found []known) {
	owners := ownersOf(all, q)
	for _, o := range all {
		if slices.ContainsFunc(kinds, func(k streams.Kind) bool { return k.GroupVersionResource == o.kind.GroupVersionResource }) &&
			q.Matches(o.subject()) &&
			(q.Owner == nil || slices.ContainsFunc(o.Owners, func(uid string) bool { return owners.Has(o.cluster + " " + uid) })) {
			found = append(found, o)
		}
	}
	return found
}

// ownersOf returns the "CLUSTER UID" of those that own what a query asks for.
func ownersOf(all []known, q query.Query) sets.Set[string] {
	owners := sets.New[string]()
	if q.Owner == nil {
		return owners
	}
	for _, o := range all {
		if q.Owner.UID != "" {
			for _, cluster := range []string{"east", "west", "north"} {
				owners.Insert(cluster + " " + q.Owner.UID)
			}
		} else if o.Name == q.Owner.Name && (q.Owner.Resource.Empty() || q.Owner.Resource == o.kind.GroupResource()) &&
			(len(q.Namespaces.In) == 0 || o.Namespace == "" || slices.Contains(q.Namespaces.In, o.Namespace)) {
			owners.Insert(o.cluster + " " + o.UID)
		}
	}
	for range q.Owner.Seniority {
		next := sets.New[string]()
		for _, o := range all {
			if slices.ContainsFunc(o.Owners, func(uid string) bool { return owners.Has(o.cluster + " " + uid) }) {
				next.Insert(o.cluster + " " + o.UID)
			}
		}
		owners = next
	}
	return owners
}

// inOrder sorts what a query finds.
func inOrder(found []known, q query.Query, severalKinds bool) {
	slices.SortFunc(found, func(a, b known) int {
		for _, order := range q.Order {
			var c int
			if len(order.Path) > 0 {
				first, second := a.subject().RankAt(order.Path), b.subject().RankAt(order.Path)
				c = cmp.Or(cmp.Compare(first.Number, second.Number), strings.Compare(first.Text, second.Text))
			}
			switch order.Column {
			case query.Cluster:
				c = cmp.Compare(a.cluster, b.cluster)
			case query.Namespace:
				c = cmp.Compare(a.Namespace, b.Namespace)
			case query.Name:
				c = cmp.Compare(a.Name, b.Name)
			case query.UID:
				c = cmp.Compare(a.UID, b.UID)
			case query.CreatedAt:
				c = cmp.Compare(a.CreatedAt, b.CreatedAt)
			case query.ResourceVersion:
				c = cmp.Or(cmp.Compare(len(a.ResourceVersion), len(b.ResourceVersion)), cmp.Compare(a.ResourceVersion, b.ResourceVersion))
			case query.Kind:
				c = cmp.Compare(a.kind.Name, b.kind.Name)
			case query.Group:
				c = cmp.Compare(a.kind.Group, b.kind.Group)
			}
			if order.Descending {
				c = -c
			}
			if c != 0 {
				return c
			}
		}
		if severalKinds {
			if c := cmp.Compare(kindOrder[a.kind.Resource], kindOrder[b.kind.Resource]); c != 0 {
				return c
			}
		}
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.clusterID, b.clusterID))
	})
}

// kindOrder is the order in which population writes the kinds.
var kindOrder = map[string]int{"deployments": 1, "replicasets": 2, "pods": 3, "nodes": 4, "jobs": 5, "events": 6, "replicationcontrollers": 7}

func TestRandomQueriesFindWhatKubernetesSelectorsSelect(t *testing.T) {
	const queries = 400
	each(t, func(t *testing.T, s *Store) {
		seed := uint64(time.Now().UnixNano())
		r := rand.New(rand.NewPCG(seed, 0))
		all := population(t, s, r)
		some := 0
		for range queries {
			q := randomQuery(r, all)
			s.many = pick(r, manyOrFew)
			kinds := pick(r, [][]streams.Kind{{pods}, {pods}, {replicaSets}, {nodes}, {jobs}, {eventsKind}, {controllers}, {deployments, pods, replicaSets}, {eventsKind, jobs, nodes, pods, controllers}})
			want := expected(all, q, kinds)
			inOrder(want, q, len(kinds) > 1)
			var wanted []string
			rest := want[min(int(q.Offset), len(want)):]
			if q.Limit > 0 {
				rest = rest[:min(int(q.Limit), len(rest))]
			}
			for _, o := range rest {
				wanted = append(wanted, o.String())
			}
			got, page := names(t, s, q, kinds...)
			if !slices.Equal(wanted, got) { // show which objects
				whole := q
				whole.Limit, whole.Offset = 0, 0
				found, _ := names(t, s, whole, kinds...)
				for _, o := range all {
					if slices.Contains(found, o.String()) != slices.Contains(wanted, o.String()) {

						t.Logf("found: %t: %s %s", slices.Contains(found, o.String()), o, o.JSON)
					}
				}
			}
			if !assert.Equal(t, wanted, got, "seed %d, %s", seed, described(q)) {
				return
			}
			assert.Contains(t, remaining(s, q, page, len(want)-int(q.Offset)-len(got)), page.Remaining, "seed %d, %s", seed, described(q))
			assert.Equal(t, q.Limit > 0 && len(want) > int(q.Offset+q.Limit), page.More, "seed %d, %s", seed, described(q))
			if len(got) > 0 {
				some++
			}
		}
		assert.Greater(t, some, queries/10, "few queries find anything: seed %d", seed)
	})
}

// manyOrFew are numbers of objects that a search by words counts.
var manyOrFew = []int64{0, 2, manyMatches}

// remaining returns what a page may say of how many objects follow it, if a number does.
func remaining(s *Store, q query.Query, page Page, follow int) (allowed []int64) {
	switch {
	case !q.WithRemaining:
		return []int64{-1}
	case page.More && len(q.Words) > 0 && s.many < manyMatches:
		allowed = []int64{-1}
	}
	return append(allowed, max(0, int64(follow)))
}

func described(q query.Query) string {
	owner := "none"
	if q.Owner != nil {
		owner = fmt.Sprintf("%+v", *q.Owner)
	}
	return fmt.Sprintf("%+v owner %s labels %v", q, owner, labels.NewSelector().Add(q.Labels...))
}
