// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/tripod-k8s/tripod/services/search/diff"
)

// Difference is what has changed between two moments.
type Difference struct {
	diff.Question
	// Since is how long ago the first moment is, if From does not say it.
	Since time.Duration
	// OwnedBy is the owner of the objects, as TYPE/NAME or RESOURCE.GROUP/NAME.
	OwnedBy string
	// Output is the format: summary, diff or json.
	Output string
}

// Writer returns what writes an answer in the format that is asked for.
func (d *Difference) Writer() (func(io.Writer, *diff.Answer) error, error) {
	switch d.Output {
	case "summary":
		return func(out io.Writer, a *diff.Answer) error { return a.Summary(out, time.Now()) }, nil
	case "diff":
		return func(out io.Writer, a *diff.Answer) error { return a.Unified(out) }, nil
	case "json":
		return func(out io.Writer, a *diff.Answer) error { return a.JSON(out) }, nil
	}
	return nil, fmt.Errorf("--output %s: write summary, diff or json", d.Output)
}

// Complete completes the question by what was given, and by the resources that search has.
func (d *Difference) Complete(to *rest.Config, types []string) (err error) {
	if d.From == "" {
		if d.Since <= 0 {
			return fmt.Errorf("--since %s: write a duration, such as 10m", d.Since)
		}
		d.From = time.Now().Add(-d.Since).UTC().Format(time.RFC3339Nano)
	}
	if d.Cluster == AllClusters {
		d.Cluster = ""
	}
	if d.OwnedBy != "" {
		if d.OwnerResource, d.Question.Owner, err = ownerOf(d.OwnedBy); err != nil {
			return err
		}
	}
	d.Resources, err = resourcesOf(to, types)
	return err
}

// resourcesOf finds the resources that kubectl would find for some types, among those that search copies.
func resourcesOf(to *rest.Config, types []string) (resources []schema.GroupResource, err error) {
	if len(types) == 0 {
		return nil, nil
	}
	below := rest.CopyConfig(to)
	below.Host += Path
	client, err := discovery.NewDiscoveryClientForConfig(below)
	if err != nil {
		return nil, err
	}
	cached := memory.NewMemCacheClient(client)
	mapper := restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(cached), cached, nil)
	for _, name := range strings.Split(strings.Join(types, ","), ",") {
		found, err := mapper.ResourceFor(schema.ParseGroupResource(name).WithVersion(""))
		if err != nil {
			return nil, fmt.Errorf("search has no resource %s: %w", name, err)
		}
		resources = append(resources, found.GroupResource())
	}
	return resources, nil
}
