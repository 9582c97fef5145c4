// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/tripod-k8s/tripod/console/query"
	"github.com/tripod-k8s/tripod/console/searchclient"
	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
)

// pageSize is how many objects a page of results has.
const pageSize = 100

// results are a page of objects.
type results struct {
	Columns []resultColumn
	Rows    []resultRow
	// Continue is the token of the next page, and Remaining how many objects follow, if search knows.
	Continue  string
	Remaining *int64
	Warnings  []string
	Staleness string

	// mapping is that of the kind, if there is only one.
	mapping *meta.RESTMapping
	path    string
	values  url.Values
}

type resultColumn struct {
	Name string
	// Wide columns are for exports only.
	Wide bool
}

type resultRow struct {
	identity
	// plurals are other resources that the object may have: clusters may serve one kind under several.
	plurals []string
	Cells   []string
	labels  map[string]string
}

// Link is that of the object's page, which looks for the object under all plurals.
func (r *resultRow) Link() string {
	link := r.identity.Link()
	if len(r.plurals) > 0 {
		link += "&" + url.Values{pluralParameter: r.plurals}.Encode()
	}
	return link
}

// find asks search for a page.
func (c *console) find(ctx context.Context, q query.Query, token string) (*results, error) {
	r := &results{values: q.Parameters()}
	r.values.Set("limit", strconv.Itoa(pageSize))
	r.values.Set("withContinue", "true")
	if !r.values.Has("at") { // search knows the age of the latest state only
		r.values.Set("withStaleness", "true")
	}
	if token != "" {
		r.values.Set("continue", token)
	}
	if err := c.aim(q, r); err != nil {
		return nil, err
	}
	if r.mapping != nil {
		return r, c.table(ctx, r)
	}
	r.values.Set("onlyMetadata", "true")
	return r, c.collection(ctx, r)
}

// aim sets the path of the kinds that a query names.
func (c *console) aim(q query.Query, r *results) error {
	var mappings []*meta.RESTMapping
	for _, kind := range q.Values("kind") {
		mapping, err := c.hub.Find(kind)
		if err != nil {
			return err
		}
		mappings = append(mappings, mapping)
	}
	if len(mappings) == 1 {
		r.mapping = mappings[0]
		resource := r.mapping.Resource
		r.path = searchclient.Resources + groupPath(resource.Group, resource.Version) + "/" + url.PathEscape(resource.Resource)
		return nil
	}
	r.path = searchclient.Collections
	r.values.Set("groups", "*")
	var resources []string
	for _, mapping := range mappings {
		resources = append(resources, mapping.Resource.Group+"/"+mapping.Resource.Resource)
	}
	if len(resources) > 0 {
		r.values.Del("groups")
		r.values.Set("resources", strings.Join(resources, ","))
	}
	return nil
}

// table reads objects of one kind, with the columns of their clusters.
func (c *console) table(ctx context.Context, r *results) error {
	resource := r.mapping.Resource
	answer, err := c.hub.Get(ctx, r.path, r.values, searchclient.TableType)
	if err != nil {
		return err
	}
	var table metav1.Table
	if err := json.Unmarshal(answer.Body, &table); err != nil {
		return fmt.Errorf("search answers with something else than a table: %w", err)
	}
	r.Continue, r.Remaining = table.Continue, table.RemainingItemCount
	r.Warnings, r.Staleness = answer.Warnings, answer.Staleness
	namespaced := r.mapping.Scope.Name() == meta.RESTScopeNameNamespace
	for i, column := range table.ColumnDefinitions {
		r.Columns = append(r.Columns, resultColumn{column.Name, column.Priority > 0})
		if i == 0 && namespaced {
			r.Columns = append(r.Columns, resultColumn{Name: "Namespace"})
		}
	}
	for _, row := range table.Rows {
		var object metav1.PartialObjectMetadata
		if err := json.Unmarshal(row.Object.Raw, &object); err != nil {
			return fmt.Errorf("search answers with a row without an object: %w", err)
		}
		found := resultRow{identity: identity{
			object.Annotations[v1beta1.ClusterAnnotation], resource.Group, resource.Version, resource.Resource, object.Namespace, object.Name,
		}, labels: object.Labels}
		for i, cell := range row.Cells {
			found.Cells = append(found.Cells, cellText(cell))
			if i == 0 && namespaced {
				found.Cells = append(found.Cells, object.Namespace)
			}
		}
		r.Rows = append(r.Rows, found)
	}
	return nil
}

func cellText(cell any) string {
	switch cell := cell.(type) {
	case nil:
		return ""
	case string:
		return cell
	case float64:
		return strconv.FormatFloat(cell, 'f', -1, 64)
	}
	text, err := json.Marshal(cell)
	if err != nil {
		return "?"
	}
	return string(text)
}

// collectionAnswer is a page of objects of several kinds.
type collectionAnswer struct {
	ResourceTypes []struct {
		schema.GroupVersionKind
		Resource string `json:"resource"`
	} `json:"resourceTypes"`
	Continue  string                         `json:"continue"`
	Remaining *int64                         `json:"remainingItemCount"`
	Items     []metav1.PartialObjectMetadata `json:"items"`
}

// resources returns those of the kind of an object. Each object has its own version, and a page one of each kind.
func (a *collectionAnswer) resources(kind schema.GroupVersionKind) (first string, others []string) {
	for _, t := range a.ResourceTypes {
		switch {
		case t.GroupKind() != kind.GroupKind() || t.Resource == first || slices.Contains(others, t.Resource):
		case first == "":
			first = t.Resource
		case len(others) < maxPlurals:
			others = append(others, t.Resource)
		}
	}
	return first, others
}

// collection reads objects of several kinds.
func (c *console) collection(ctx context.Context, r *results) error {
	answer, err := c.hub.Get(ctx, r.path, r.values, "application/json")
	if err != nil {
		return err
	}
	var page collectionAnswer
	if err := json.Unmarshal(answer.Body, &page); err != nil {
		return fmt.Errorf("search answers with something else than a collection: %w", err)
	}
	r.Continue, r.Remaining = page.Continue, page.Remaining
	r.Warnings, r.Staleness = answer.Warnings, answer.Staleness
	r.Columns = []resultColumn{{Name: "Cluster"}, {Name: "Namespace"}, {Name: "Kind"}, {Name: "Name"}, {Name: "Age"}}
	for i := range page.Items {
		object := &page.Items[i]
		kind := object.GroupVersionKind()
		cluster := object.Annotations[v1beta1.ClusterAnnotation]
		resource, plurals := page.resources(kind)
		r.Rows = append(r.Rows, resultRow{
			identity: identity{cluster, kind.Group, kind.Version, resource, object.Namespace, object.Name}, plurals: plurals,
			Cells:  []string{cluster, object.Namespace, kindText(kind), object.Name, ageOf(object.CreationTimestamp.Time)},
			labels: object.Labels,
		})
	}
	return nil
}

// kindText names a kind with its group, unless Kubernetes' own groups have it.
func kindText(kind schema.GroupVersionKind) string {
	if !strings.Contains(kind.Group, ".") || strings.HasSuffix(kind.Group, ".k8s.io") {
		return kind.Kind
	}
	return kind.Kind + "." + kind.Group
}

func ageOf(since time.Time) string {
	if since.IsZero() {
		return ""
	}
	return duration.HumanDuration(max(time.Since(since), 0))
}

// searchPage is the model of results.
type searchPage struct {
	layout
	Chips   []chip
	CountBy []countLink
	Started bool
	Columns []headColumn
	Rows    []shownRow
	Found   string
	Next    string
	First   string
	CSV     string
	JSON    string
	Ages    []clusterAge
	Past    string
	Notes   []string
	Kubectl string
	Raw     string
	URL     string
}

type chip struct {
	Text string
	// Without leads to the search without it.
	Without string
}

type headColumn struct {
	Name string
	// Sort leads to the search in this order, if search can sort by the column. Order is ascending, descending or none.
	Sort, Order string
}

type shownRow struct {
	Link  string
	Cells []shownCell
}

type shownCell struct {
	Text string
	// Link is whether it leads to the object.
	Link bool
}

func chipsOf(q query.Query) (chips []chip) {
	for i, part := range q.Parts {
		chips = append(chips, chip{part.String(), linkTo(q.Without(i), "")})
	}
	return chips
}

func linkTo(q query.Query, token string) string {
	values := url.Values{"q": {q.String()}}
	if token != "" {
		values.Set("continue", token)
	}
	return "?" + values.Encode()
}

// search shows the results of the box.
func (c *console) search(req *http.Request) (model, error) {
	values := req.URL.Query()
	q, err := query.Parse(values.Get("q"))
	if err != nil {
		return nil, badRequest{err}
	}
	if q.GroupBy() != "" {
		return c.counts(req.Context(), q)
	}
	page := &searchPage{layout: layout{Title: "Search", Text: values.Get("q")}, Started: len(q.Parts) > 0}
	if page.Started {
		page.Title = q.String() + " - Search"
	}
	page.Chips, page.CountBy = chipsOf(q), countLinks(q)
	found, err := c.find(req.Context(), q, values.Get("continue"))
	if err != nil {
		return nil, err
	}
	page.labels = labelParts(found)
	page.Notes, page.Ages = found.Warnings, agesOf(found.Staleness)
	if past := q.Values("at"); len(past) > 0 {
		page.Past = past[len(past)-1]
	}
	page.show(found, q)
	if token := values.Get("continue"); token != "" {
		page.First = linkTo(q, "")
	}
	if found.Continue != "" {
		page.Next = linkTo(q, found.Continue)
	}
	page.Found = counted(len(found.Rows), found.Remaining, found.Continue != "")
	export := strings.TrimPrefix(linkTo(q, values.Get("continue")), "?")
	page.CSV, page.JSON = "results.csv?"+export, "results.json?"+export
	page.Kubectl, page.Raw, page.URL = commands(q, found), rawCommand(found.path, found.values), c.hub.URL(found.path, found.values)
	return page, nil
}

func counted(rows int, remaining *int64, more bool) string {
	noun := "objects"
	if rows == 1 {
		noun = "object"
	}
	text := fmt.Sprintf("%d %s", rows, noun)
	switch {
	case remaining != nil && *remaining > 0:
		text += fmt.Sprintf(" on this page, %d more follow", *remaining)
	case more:
		text += " on this page, more follow"
	}
	return text
}

// show fills the table.
func (p *searchPage) show(found *results, q query.Query) {
	sorted := ""
	if order := q.Values("sort"); len(order) > 0 {
		sorted = strings.ToLower(order[0])
	}
	sortable := []string{"cluster", "namespace", "name", "age"}
	for _, column := range found.Columns {
		if column.Wide {
			continue
		}
		head := headColumn{Name: column.Name}
		if by := strings.ToLower(column.Name); slices.Contains(sortable, by) {
			// The age grows while the time of creation falls.
			ascending, descending := by, "-"+by
			if by == "age" {
				ascending, descending = "-created", "created"
			}
			switch sorted {
			case ascending:
				head.Order, head.Sort = "ascending", linkTo(q.With("sort", descending), "")
			case descending:
				head.Order, head.Sort = "descending", linkTo(q.With("sort", ascending), "")
			default:
				head.Sort = linkTo(q.With("sort", ascending), "")
			}
		}
		p.Columns = append(p.Columns, head)
	}
	for _, row := range found.Rows {
		shown := shownRow{}
		if row.Resource != "" && row.Cluster != "" {
			shown.Link = row.Link()
		}
		for i, cell := range row.Cells {
			if i < len(found.Columns) && !found.Columns[i].Wide {
				shown.Cells = append(shown.Cells, shownCell{cell, found.Columns[i].Name == "Name" && shown.Link != ""})
			}
		}
		p.Rows = append(p.Rows, shown)
	}
}

// oldAge is the age of a copy in seconds above which something is wrong: a quiet resource is 1 to 14 seconds old.
const oldAge = 30

// clusterAge is how old the copy of a cluster is.
type clusterAge struct {
	Cluster, Age string
	Old          bool
}

// agesOf reads the header Search-Staleness.
func agesOf(header string) (ages []clusterAge) {
	for part := range strings.SplitSeq(header, ",") {
		name, text, found := strings.Cut(strings.TrimSpace(part), "=")
		if !found {
			continue
		}
		age := clusterAge{Cluster: name, Age: "not copied yet", Old: true}
		if seconds, err := strconv.ParseFloat(text, 64); err == nil && seconds < 1e9 {
			age.Age, age.Old = duration.HumanDuration(time.Duration(seconds*float64(time.Second))), seconds > oldAge
		}
		ages = append(ages, age)
	}
	return ages
}
