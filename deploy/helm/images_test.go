// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/services/list"
)

// pinned gives every image of Tripod a digest of its own, as the file of a release does.
func pinned() (values string, digests map[string]string) {
	digests = map[string]string{"tripod": ""}
	for _, service := range list.Names() {
		digests[list.Program(service)] = ""
	}
	var entries []string
	for name := range digests {
		digests[name] = fmt.Sprintf("sha256:%064x", len(entries)+1)
		entries = append(entries, fmt.Sprintf("%s: %q", name, digests[name]))
	}
	return "image: {digests: {" + strings.Join(entries, ", ") + "}}", digests
}

func TestEveryContainerOfTripodRunsTheImageWithTheDigest(t *testing.T) {
	values, digests := pinned()
	for name, more := range map[string]string{
		"search with a database":    withPostgres,
		"search without a database": withSearch,
		"nodes":                     withKonnectivity,
		"search with the console":   withConsole,
		"snapshots":                 withSnapshots,
		"a partition":               "extensions: {partitions: {shop: {groups: [shop.example.com]}}}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := map[string]bool{}
			for _, p := range render(t, merged(t, values, more)).pods(t) {
				for _, c := range append(p.spec.InitContainers, p.spec.Containers...) {
					path, ours := strings.CutPrefix(c.Image, "localhost/tripod-k8s/")
					if !ours {
						continue
					}
					program, rest, _ := strings.Cut(path, ":")
					require.Contains(t, digests, program)
					assert.Equal(t, "dev@"+digests[program], rest, "image %s of container %s", c.Image, c.Name)
					seen[program] = true
				}
			}
			assert.True(t, seen["tripod-core"] && seen["tripod"], "containers run %v", seen)
			assert.Equal(t, strings.HasPrefix(name, "search"), seen["tripod-search"], "containers run %v", seen)
		})
	}
}

// TestTheDigestsOfAChartCanBeTakenAway is what people do who use images of their own with the chart of a registry, whose values have digests.
func TestTheDigestsOfAChartCanBeTakenAway(t *testing.T) {
	for _, p := range render(t, "image: {tag: mine, digests: null}").pods(t) {
		for _, c := range append(p.spec.InitContainers, p.spec.Containers...) {
			assert.NotContains(t, c.Image, "@")
		}
	}
}
