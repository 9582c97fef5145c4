// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/both"
)

var clusters *comparison

func TestMain(m *testing.M) {
	framework.Main(m, func(ctx context.Context, env *framework.Environment) (err error) {
		clusters, err = start(ctx, env)
		return err
	})
}

// comparison is two clusters and what may differ between them.
type comparison struct {
	stock, tripod *side
	accepted      acceptedList
	inherited     inherited
}

func start(ctx context.Context, env *framework.Environment) (*comparison, error) {
	servers, err := both.StartClusters(ctx, env, nil, []string{"--apiservice-form=local"})
	if err != nil {
		return nil, err
	}
	c := &comparison{stock: newSide(servers[0]), tripod: newSide(servers[1])}
	if c.inherited, err = readInherited(); err != nil {
		return nil, err
	}
	if !both.AgainstStock {
		if c.accepted, err = readAccepted("accepted.yaml"); err != nil {
			return nil, err
		}
	}
	return c, c.both(ctx, func(ctx context.Context, s *side) error {
		if err := s.waitBootstrapped(ctx); err != nil {
			return err
		}
		// As in a cluster that is some minutes old: see watchFromThePast.
		if err := s.ForgetHistory(ctx); err != nil {
			return err
		}
		return s.learnUIDs(ctx)
	})
}

// watchFromThePast is the name of requests that etcd can answer no more.
const watchFromThePast = "watch from a resource version that is too old"

// area is a part of the API: requests that are sent one after the other, to both clusters at the same time.
type area struct {
	name     string
	requests []request
	// succeed is set if requests which stock refuses are mistakes of the test, except those with failing.
	succeed bool
	// more gives further requests that are known only when the others have been answered.
	more func(context.Context, *comparison) ([]request, error)
	// then waits for what the requests have started.
	then func(*side, context.Context) error
}

// TestTripodAnswersLikeStock compares all areas, in an order that matters: objects of one area show up in the lists
// of those after it.
func TestTripodAnswersLikeStock(t *testing.T) {
	areas := []area{
		{name: "bootstrap", requests: bootstrap},
		{name: "fixtures", requests: fixtures, succeed: true, then: (*side).afterFixtures},
		{name: "discovery", requests: discovery, more: discoveryDocuments},
		{name: "openapi", requests: openAPI, more: openAPIDocuments},
		{name: "identity", requests: identities},
		{name: "paths", requests: paths},
		{name: "errors", requests: failures, then: (*side).afterFailures},
		{name: "core objects", requests: coreObjects, succeed: true, then: (*side).afterQuota},
		{name: "over quota", requests: overQuota, succeed: true},
		{name: "custom objects", requests: customObjects, succeed: true},
		{name: "watches", requests: watches, succeed: true},
		{name: "health", requests: health},
		{name: "apiservices", requests: apiServices, succeed: true, then: (*side).afterAPIServices},
		{name: "an API server that is missing", requests: missingServer},
		{name: "removal of definitions", requests: removal, succeed: true, then: (*side).afterRemoval},
		{name: "removed definitions", requests: removed},
		{name: "definitions in groups of Kubernetes", requests: fooDefinitions(), succeed: true, then: (*side).afterFooDefinitions},
		{name: "resources in groups of Kubernetes", requests: fooRequests()},
		{name: "removal of definitions in groups of Kubernetes", requests: fooRemoval(), succeed: true, then: (*side).afterFooRemoval},
		{name: "groups of Kubernetes", requests: fooRequests()},
	}
	ran := 0
	for _, area := range areas {
		ready := true
		t.Run(area.name, func(t *testing.T) {
			ran++
			ready = clusters.compareArea(t, area)
		})
		require.True(t, ready, "%q did not get ready, so the following requests cannot be compared", area.name)
	}
	if ran == len(areas) {
		clusters.inherited.finish(t)
		for _, entry := range clusters.accepted {
			if !entry.occurs {
				t.Errorf("accepted difference does not occur any more, remove it: request %q at %q", entry.Request, entry.At)
			}
		}
	}
}

// compareArea reports whether the clusters became what later areas need.
func (c *comparison) compareArea(t *testing.T, area area) bool {
	names := map[string]bool{}
	compare := func(requests []request) {
		for _, r := range requests {
			if framework.Kine() != "" && strings.HasPrefix(r.String(), watchFromThePast) {
				continue // see ForgetHistory
			}
			assert.False(t, names[r.String()], "two requests are called %q; give one of them a name", r)
			names[r.String()] = true
			stock := c.compareRequest(t, r)
			if area.succeed && stock != nil && (stock.status >= http.StatusMultipleChoices) != r.fails {
				t.Errorf("%s: stock must succeed, but answers %d: %s", r, stock.status, stock.body)
			}
		}
	}
	compare(area.requests)
	if area.more != nil {
		more, err := area.more(t.Context(), c)
		if err != nil {
			t.Error(err)
			return false
		}
		compare(more)
	}
	if area.then != nil {
		wait := func(ctx context.Context, s *side) error { return area.then(s, ctx) }
		if err := c.both(t.Context(), wait); err != nil {
			t.Error(err)
			return false
		}
	}
	return true
}

// compareRequest sends a request to both and fails the test for every difference that is not accepted. It returns
// the answer of stock.
func (c *comparison) compareRequest(t *testing.T, r request) *answer {
	var stock, tripod *answer
	err := c.both(t.Context(), func(ctx context.Context, s *side) error {
		a, err := r.do(ctx, s)
		if s == c.stock {
			stock = a
		} else {
			tripod = a
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
		return stock
	}
	var unexpected []string
	for _, difference := range c.differences(r, stock, tripod) {
		if !c.accepted.accepts(difference) && !c.inherited.accepts(difference) {
			unexpected = append(unexpected, difference.String())
		}
	}
	const shown = 20
	if more := len(unexpected) - shown; more > 0 {
		unexpected = append(unexpected[:shown], fmt.Sprintf("and %d more", more))
	}
	assert.Empty(t, unexpected, "%s\n    %s", r, strings.Join(unexpected, "\n    "))
	return stock
}

func (c *comparison) differences(r request, stock, tripod *answer) []difference {
	d := &differ{request: r.String()}
	d.compare("status", strconv.Itoa(stock.status), strconv.Itoa(tripod.status))
	stockNormal, tripodNormal := newNormaliser(c.stock), newNormaliser(c.tripod)
	d.compare("header", stockNormal.headers(stock.header), tripodNormal.headers(tripod.header))
	if r.withoutBody {
		return d.found
	}
	d.compare("layout", stock.layout(), tripod.layout())
	d.compare("body", stockNormal.Value(stock.decoded()), tripodNormal.Value(tripod.decoded()))
	return d.found
}

func (a *answer) layout() string { return layout(a.header.Get("Content-Type"), a.body) }

// decoded returns the body, or the events, as what JSON gives. In place of a body that cannot be decoded, it returns a text with the error.
func (a *answer) decoded() any {
	contentType := a.header.Get("Content-Type")
	if a.events == nil {
		return decodeOrSay(contentType, a.body)
	}
	events := make([]any, 0, len(a.events))
	for _, event := range a.events {
		events = append(events, decodeOrSay(jsonType, event))
	}
	return events
}

func decodeOrSay(contentType string, body []byte) any {
	value, err := decode(contentType, body)
	if err != nil {
		return fmt.Sprintf("not %s: %v: %s", contentType, err, body)
	}
	return value
}

func (s *side) afterFixtures(ctx context.Context) error {
	if err := s.waitCustomResources(ctx); err != nil {
		return err
	}
	if err := s.waitAuthorized(ctx, reader, configMaps); err != nil {
		return err
	}
	return s.learnToken(ctx)
}
