// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

const (
	// collection is where search finds objects of several resources.
	collection = "/apis/clusterpedia.io/v1beta1/collectionresources/any"
	// clusters is where it has those of each cluster.
	clusters = "/apis/clusterpedia.io/v1beta1/resources/clusters"
)

// pageSize is how many objects are asked for at once.
const pageSize = 500

// Question says which changes to show.
type Question struct {
	// From and To are moments, as the parameter at of search takes them.
	From, To string
	// Resources are empty for all.
	Resources []schema.GroupResource
	// Cluster and Namespace are empty for all.
	Cluster, Namespace string
	// Owner is the name of an object, and OwnerResource its resource. Its own changes are shown, and those of what it owns, Generations down.
	// It is empty if owners do not count.
	Owner         string
	OwnerResource schema.GroupResource
	Generations   int
	// Labels and Fields are selectors.
	Labels, Fields string
}

// Ask returns the changes, the oldest first. A cluster that search does not have is an error.
func (q Question) Ask(ctx context.Context, client rest.Interface) (*Answer, error) {
	answer := &Answer{}
	err := q.checkCluster(ctx, client)
	if err != nil {
		return nil, err
	}
	// The moments of all lists are the same, so they are revisions.
	if answer.From, err = q.revision(ctx, client, q.From); err != nil {
		return nil, err
	}
	if answer.To, err = q.revision(ctx, client, q.To); err != nil {
		return nil, err
	}
	before, after := map[key]object{}, map[key]object{}
	for _, values := range q.parameters() {
		for _, side := range []struct {
			at, other string
			into      map[key]object
		}{{answer.From, answer.To, before}, {answer.To, answer.From, after}} {
			values.Set("at", side.at)
			values.Set("differsFrom", side.other)
			if err := list(ctx, client, values, side.into); err != nil {
				return nil, err
			}
		}
	}
	answer.Changes = changes(before, after)
	return answer, nil
}

// checkCluster asks for the cluster itself: in a list, one that search does not have is one without objects.
func (q Question) checkCluster(ctx context.Context, client rest.Interface) error {
	if q.Cluster == "" {
		return nil
	}
	err := client.Get().AbsPath(clusters, q.Cluster, "api").Do(ctx).Error()
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("search has no cluster %s: see tripod search clusters list", q.Cluster)
	}
	return err
}

// parameters returns those of each search. An object may be found by several.
func (q Question) parameters() (all []url.Values) {
	common := url.Values{"groups": {"*"}}
	if len(q.Resources) > 0 {
		common = url.Values{"resources": {names(q.Resources)}}
	}
	for name, value := range map[string]string{
		"clusters": q.Cluster, "namespaces": q.Namespace, "labelSelector": q.Labels, "fieldSelector": q.Fields,
	} {
		if value != "" {
			common.Set(name, value)
		}
	}
	if q.Owner == "" {
		return []url.Values{common}
	}
	if len(q.Resources) == 0 || slices.Contains(q.Resources, q.OwnerResource) {
		itself := maps.Clone(common)
		itself.Del("groups")
		itself.Set("resources", names([]schema.GroupResource{q.OwnerResource}))
		itself.Set("names", q.Owner)
		all = append(all, itself)
	}
	for generation := range q.Generations {
		owned := maps.Clone(common)
		owned.Set("ownerName", q.Owner)
		owned.Set("ownerGR", q.OwnerResource.String())
		owned.Set("ownerSeniority", strconv.Itoa(generation))
		all = append(all, owned)
	}
	return all
}

// names returns resources as the parameter resources takes them.
func names(resources []schema.GroupResource) string {
	var all []string
	for _, r := range resources {
		all = append(all, r.Group+"/"+r.Resource)
	}
	return strings.Join(all, ",")
}

// page is a collection.
type page struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Continue string           `json:"continue"`
	Items    []map[string]any `json:"items"`
}

func get(ctx context.Context, client rest.Interface, values url.Values) (*page, error) {
	request := client.Get().AbsPath(collection)
	for name := range values {
		request.Param(name, values.Get(name))
	}
	result := request.Do(ctx)
	text, err := result.Raw()
	if err != nil {
		return nil, fmt.Errorf("search: %w", result.Error()) // which, unlike err, has the message of the server
	}
	var p page
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, fmt.Errorf("search answers with something else than objects: %w", err)
	}
	return &p, nil
}

// revision returns that of a moment.
func (q Question) revision(ctx context.Context, client rest.Interface, moment string) (string, error) {
	values := url.Values{"groups": {"*"}, "limit": {"1"}, "onlyMetadata": {"true"}, "withRemainingCount": {"false"}, "at": {moment}}
	if q.Cluster != "" {
		values.Set("clusters", q.Cluster)
	}
	p, err := get(ctx, client, values)
	if err != nil {
		return "", err
	}
	if p.Metadata.ResourceVersion == "" {
		return "", fmt.Errorf("search has copied nothing yet")
	}
	return p.Metadata.ResourceVersion, nil
}

// list adds the objects of all pages.
func list(ctx context.Context, client rest.Interface, values url.Values, into map[key]object) error {
	values = maps.Clone(values)
	values.Set("limit", strconv.Itoa(pageSize))
	values.Set("withContinue", "true")
	values.Set("withRemainingCount", "false")
	for {
		p, err := get(ctx, client, values)
		if err != nil {
			return err
		}
		for _, item := range p.Items {
			o := newObject(item)
			into[o.key] = o
		}
		if p.Continue == "" {
			return nil
		}
		values.Set("continue", p.Continue)
	}
}
