// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework"
)

// marked are objects whose annotation has texts that are hard to search for.
var marked = []string{`<script>alert(1)</script>`, `"><img src=x onerror=alert(2)>`, `a, (b) \ "c"`, "two\\nlines", "\\r \\t", "0.50", "false", ""}

// countedLink is a row of numbers, and where its link leads.
type countedLink struct{ Text, Count, Link string }

func (b *browser) counted() []countedLink {
	b.t.Helper()
	return evaluate[[]countedLink](b, `[...document.querySelectorAll("tbody tr")].map(r => ({
		Text: r.cells[0].innerText, Count: r.cells[r.cells.length - 2].innerText, Link: r.querySelector("a")?.getAttribute("href") ?? ""}))`)
}

var found = regexp.MustCompile(`(\d+) objects?\.|(\d+) objects on this page, (\d+) more follow`)

// TestEachNumberLeadsToAsManyObjects follows the link of each group, of columns and of fields with hostile texts.
func TestEachNumberLeadsToAsManyObjects(t *testing.T) {
	for i, text := range marked {
		object := fmt.Sprintf(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "marked-%d", "namespace": "shop", "annotations": {"example.com/a.mark": "%s"}}}`,
			i, strings.NewReplacer(`"`, `\"`, `\ `, `\\ `).Replace(text))
		createOnce(t, object)
		framework.Eventually(t, "search has the object", func(ctx context.Context) error {
			return copied(ctx, "east", fmt.Sprintf("/api/v1/namespaces/shop/configmaps/marked-%d", i))
		})
	}
	b := open(t, administrator)
	for question, groups := range map[string]int{
		"cluster:east namespace:shop count:kind":                                                        5,
		"cluster:east kind:ConfigMap namespace:shop name:settings count:cluster":                        1,
		"name:front count:namespace count:kind":                                                         2,
		"kind:Namespace cluster:east count:namespace":                                                   1,
		"kind:Pod namespace:shop count:status.phase":                                                    1,
		`cluster:east kind:ConfigMap namespace:shop count:"metadata.annotations['example.com/a.mark']"`: len(marked), // settings has none, as the empty one
	} {
		b.visit(searchFor(question))
		rows := b.counted()
		assert.Len(t, rows, groups, "%s: %v", question, rows)
		for _, row := range rows {
			require.NotEmpty(t, row.Link, "%s: %v", question, row)
			b.visit(row.Link)
			text := b.text()
			assert.Equal(t, row.Count, strings.Join(found.FindStringSubmatch(text)[1:2], ""), "%s: %v", question, row)
		}
	}
	b.visit(searchFor("front sort:name"))
	b.do(chromedp.Click(`//a[normalize-space()="kind"]`), chromedp.WaitVisible(`//h1[normalize-space()="Counts"]`))
	assert.Regexp(t, `pods 2 \d+\.\d %`, strings.Join(b.rows(), "\n"))
	b.examine("counts")
	b.do(chromedp.Click(`//tbody//a[normalize-space()="pods"]`), chromedp.WaitVisible(`//h1[normalize-space()="Results"]`))
	assert.Len(t, b.rows(), 2)
	assert.Equal(t, "front sort:name kind:pods", evaluate[string](b, `document.getElementById("q").value`))

	b.visit(searchFor("count:kind at:5m"))
	assert.Contains(t, b.text(), "groupBy counts the latest state")
	b.visit(searchFor("count:cluster count:kind count:namespace"))
	assert.Contains(t, b.text(), "more than 3 columns and fields")
}

// options are the texts that complete the box.
func (b *browser) options() []string {
	b.t.Helper()
	return evaluate[[]string](b, `[...document.getElementById("q").list.options].map(o => o.value)`)
}

// completed are those of the first page that has some. Pages do not wait long for them.
func (b *browser) completed() (options []string) {
	b.t.Helper()
	framework.Eventually(b.t, "the box is completed", func(context.Context) error {
		b.visit("")
		if !evaluate[bool](b, `document.getElementById("q").list !== null`) {
			return errors.New("the page has no texts that complete the box")
		}
		options = b.options()
		return nil
	})
	return options
}

func TestTheBoxIsCompletedByWhatTheReaderMayRead(t *testing.T) {
	b := open(t, administrator)
	all := b.completed()
	for _, option := range []string{"cluster:east", "cluster:hub", "namespace:shop", "kind:Pod", "kind:Deployment"} {
		assert.Contains(t, all, option)
	}
	b.visit(searchFor("kind:Pod front"))
	assert.Contains(t, b.options(), "kind:Pod front label:app=front")
	assert.Contains(t, b.options(), "kind:Pod front cluster:east")
	assert.False(t, slices.Contains(b.options(), "kind:Pod front kind:Pod"), "it is there already")

	kubeconfig, err := fleet.UserKubeconfig(t.TempDir(), "tom")
	require.NoError(t, err)
	b = open(t, kubeconfig)
	assert.Equal(t, []string{"cluster:hub", "kind:ConfigMap", "namespace:shop"}, b.completed())
	b.visit(searchFor("count:kind"))
	assert.Equal(t, []string{"configmaps 1 100.0 %"}, b.rows())
	b.visit(searchFor("count:cluster count:namespace"))
	assert.Equal(t, []string{"hub shop 1 100.0 %"}, b.rows())
}
