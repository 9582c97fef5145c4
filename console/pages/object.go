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

	"golang.org/x/sync/errgroup"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tripod-k8s/tripod/console/searchclient"
	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
)

// maxElsewhere is how many other clusters with the same object are shown.
const maxElsewhere = 100

// objectPage is the model of an object.
type objectPage struct {
	layout
	identity
	Kind, Created, Past string
	// YAML is the object, and Cut whether it is longer.
	YAML      string
	Cut       bool
	Related   []relationGroup
	Events    []event
	History   history
	Elsewhere []elsewhere
	// Notes say what could not be shown.
	Notes []string
	Raw   string
}

// elsewhere is an object of the same name in another cluster.
type elsewhere struct {
	Cluster, Link, Compare, Created string
}

// object shows an object.
func (c *console) object(req *http.Request) (model, error) {
	values := req.URL.Query()
	id, err := identityOf(values)
	if err != nil {
		return nil, err
	}
	page := &objectPage{Past: values.Get("at")}
	content, id, err := c.getUnder(req.Context(), id, values[pluralParameter], page.Past)
	if err != nil {
		return nil, err
	}
	page.identity = id
	page.describe(content)
	loading, ctx := errgroup.WithContext(req.Context())
	notes := make([]string, 3)
	load := func(i int, what string, read func(context.Context) error) {
		loading.Go(func() error {
			if err := read(ctx); err != nil && ctx.Err() == nil {
				notes[i] = what + ": " + err.Error()
			}
			return ctx.Err()
		})
	}
	load(0, "Relations", func(ctx context.Context) error { return c.relations(ctx, page) })
	load(1, "History", func(ctx context.Context) (err error) {
		page.History, err = c.history(ctx, id, cmp.Or(page.Past, "now"))
		return err
	})
	load(2, "Other clusters", func(ctx context.Context) (err error) {
		page.Elsewhere, err = c.elsewhere(ctx, id)
		return err
	})
	if err := loading.Wait(); err != nil {
		return nil, fmt.Errorf("search takes too long to answer: %w", err)
	}
	page.Notes = append(page.Notes, slices.DeleteFunc(notes, func(note string) bool { return note == "" })...)
	return page, nil
}

const (
	// pluralParameter has other resources under which an object may be found, and maxPlurals bounds them.
	pluralParameter = "or"
	maxPlurals      = 4
)

// getUnder reads an object, under another plural if its cluster does not have it under the first one.
func (c *console) getUnder(ctx context.Context, id identity, plurals []string, at string) (*loaded, identity, error) {
	content, err := c.get(ctx, id, at)
	for _, plural := range plurals[:min(len(plurals), maxPlurals)] {
		if missing := (*searchclient.Error)(nil); !errors.As(err, &missing) || missing.Code != http.StatusNotFound {
			break
		}
		other, invalid := id, error(nil)
		other.Resource = plural
		if other, invalid = identityOf(other.values()); invalid != nil {
			return nil, id, invalid
		}
		found, failed := c.get(ctx, other, at)
		if failed == nil {
			return found, other, nil
		}
	}
	return content, id, err
}

// get reads an object, at a moment if one is given.
func (c *console) get(ctx context.Context, id identity, at string) (*loaded, error) {
	values := url.Values{}
	if at != "" {
		values.Set("at", at)
	}
	answer, err := c.hub.Get(ctx, id.path(), values, "application/json")
	if err != nil {
		return nil, err
	}
	return decode(answer.Body)
}

// describe fills what the object itself says.
func (p *objectPage) describe(content *loaded) {
	p.Kind = kindText(content.GroupVersionKind())
	p.Title = p.Kind + " " + p.Name + " - " + p.Cluster
	if created := content.GetCreationTimestamp(); !created.IsZero() {
		p.Created = created.UTC().Format("2006-01-02 15:04:05 UTC")
	}
	p.YAML, p.Cut = content.text()
	p.Raw = rawCommand(p.path(), nil)
}

// elsewhere finds objects of the same resource, namespace and name in other clusters.
func (c *console) elsewhere(ctx context.Context, id identity) (others []elsewhere, err error) {
	values := url.Values{"names": {id.Name}, "onlyMetadata": {"true"}, "limit": {fmt.Sprint(maxElsewhere)}}
	answer, err := c.hub.Get(ctx, id.everywhere(), values, "application/json")
	if err != nil {
		return nil, err
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(answer.Body, &list); err != nil {
		return nil, errors.New("search answers with something else than objects")
	}
	for i := range list.Items {
		item := &list.Items[i]
		cluster := item.Annotations[v1beta1.ClusterAnnotation]
		if cluster == id.Cluster || cluster == "" || item.Name != id.Name || item.Namespace != id.Namespace {
			continue
		}
		other := id
		other.Cluster = cluster
		compare := id.values()
		compare.Set("with", cluster)
		others = append(others, elsewhere{cluster, other.Link(), "compare?" + compare.Encode(), ageOf(item.CreationTimestamp.Time)})
	}
	return others, nil
}
