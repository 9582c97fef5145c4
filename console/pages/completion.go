// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/console/query"
	"github.com/tripod-k8s/tripod/console/searchclient"
	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
)

const (
	// partsAge is how long the parts that complete a search are remembered, or partsRest times the time that search took to count them, if
	// that is longer: search counts all objects. A page waits for them for partsWait, and does without them after that, until partsTimeout. If
	// they cannot be read, the next page to try is one after partsRetry, and after twice that each time it fails again, up to maxPartsRetry.
	partsAge      = time.Minute
	partsRest     = 20
	partsWait     = 300 * time.Millisecond
	partsTimeout  = 20 * time.Second
	partsRetry    = 5 * time.Second
	maxPartsRetry = 10 * time.Minute
	// maxGroups is how many places or kinds complete a search: those with most objects. maxLabels is how many labels of a page do.
	maxGroups = "500"
	maxLabels = 60
	// maxOptions bounds the text that completes a search in a page, and maxCompleted the text that is completed.
	maxOptions   = 64 << 10
	maxCompleted = 200
)

// options returns texts that complete that of the box: the same with one more part. All parts are names that search shows the reader.
func (c *console) options(ctx context.Context, text string, labels []query.Part) (options []string) {
	q, err := query.Parse(text)
	if err != nil || len(text) > maxCompleted {
		return nil
	}
	left := maxOptions
	for _, part := range slices.Concat(labels, c.parts(ctx)) {
		if slices.Contains(q.Parts, part) || visible(part.Value) != part.Value {
			continue
		}
		option := query.Query{Parts: append(slices.Clone(q.Parts), part)}.String()
		if left -= len(option); left < 0 {
			break
		}
		options = append(options, option)
	}
	return options
}

// parts returns clusters, namespaces and kinds, as far as search returns them soon. The others are left out until the next look.
func (c *console) parts(ctx context.Context) []query.Part {
	c.partsMu.Lock()
	defer c.partsMu.Unlock()
	if c.partsBusy || time.Now().Before(c.partsUntil) {
		return c.knownParts
	}
	free, err := c.looks.Take(ctx)
	if err != nil { // other sessions look, and the next page tries again
		return c.knownParts
	}
	c.partsBusy = true
	looked := make(chan struct{})
	go func() { // the only one, which ends with the session, or after partsTimeout
		defer close(looked)
		defer free()
		c.lookForParts()
	}()
	c.partsMu.Unlock()
	select {
	case <-looked:
	case <-time.After(partsWait):
	case <-ctx.Done():
	}
	c.partsMu.Lock()
	return c.knownParts
}

// lookForParts remembers parts for the pages to come.
func (c *console) lookForParts() {
	begun := time.Now()
	ctx, cancel := context.WithTimeout(c.session, partsTimeout)
	defer cancel()
	found, err := c.findParts(ctx)
	c.partsMu.Lock()
	defer c.partsMu.Unlock()
	c.partsBusy = false
	if err != nil { // the box works without them
		c.partsPause = min(max(2*c.partsPause, partsRetry), maxPartsRetry)
		c.partsUntil = time.Now().Add(c.partsPause)
		return
	}
	c.knownParts, c.partsPause = found, 0
	c.partsUntil = time.Now().Add(max(partsAge, partsRest*time.Since(begun)))
}

func (c *console) findParts(ctx context.Context) ([]query.Part, error) {
	places, err := c.groups(ctx, "cluster", "namespace")
	if err != nil {
		return nil, err
	}
	kinds, err := c.groups(ctx, "group", "kind")
	if err != nil {
		return nil, err
	}
	all := map[query.Part]bool{}
	for _, place := range places {
		all[query.Part{Key: "cluster", Value: place[0]}] = true
		all[query.Part{Key: "namespace", Value: place[1]}] = place[1] != ""
	}
	for _, kind := range kinds {
		all[query.Part{Key: "kind", Value: kindText(schema.GroupVersionKind{Group: kind[0], Kind: kind[1]})}] = true
	}
	maps.DeleteFunc(all, func(_ query.Part, is bool) bool { return !is })
	return slices.SortedFunc(maps.Keys(all), func(a, b query.Part) int {
		return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(a.Value, b.Value))
	}), nil
}

// groups returns the values of two columns of the objects that the reader may read.
func (c *console) groups(ctx context.Context, first, second string) (all [][]string, err error) {
	values := url.Values{"groups": {"*"}, "groupBy": {first + "," + second}, "limit": {maxGroups}}
	answer, err := c.hub.Get(ctx, searchclient.Collections, values, "application/json")
	if err != nil {
		return nil, err
	}
	var found v1beta1.ObjectCounts
	if err := json.Unmarshal(answer.Body, &found); err != nil {
		return nil, err
	}
	for _, group := range found.Groups {
		if len(group.Values) == 2 {
			all = append(all, group.Values)
		}
	}
	return all, nil
}

// labelParts returns parts for the labels of the objects of a page.
func labelParts(found *results) (parts []query.Part) {
	seen := map[string]bool{}
	for _, row := range found.Rows {
		for name, value := range row.labels {
			seen[name] = true
			seen[name+"="+value] = true
		}
	}
	for _, label := range slices.Sorted(maps.Keys(seen)) {
		if len(parts) < maxLabels {
			parts = append(parts, query.Part{Key: "label", Value: label})
		}
	}
	return parts
}
