// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework"
)

// readsMetrics lets a subject see what aggregators publish.
const readsMetrics = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: %[1]s-reads-metrics}
rules: [{nonResourceURLs: [/metrics], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: %[1]s-reads-metrics}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[1]s-reads-metrics}
subjects: [%[2]s]
`

// of is the selector of an element about a replica that has no process for the console.
func of(element string, replica *framework.ComponentStatus) string {
	return fmt.Sprintf(`[id="%s-%s at %s"]`, element, replica.Component, strings.TrimPrefix(replica.Address, "https://"))
}

// TestServicesOfAnyClusterAreTheViewOfAnAggregator reaches an instance as a cluster elsewhere, by its kubeconfig. A replica is killed, another one
// hangs, one stops and is removed, and the aggregator starts anew.
func TestServicesOfAnyClusterAreTheViewOfAnAggregator(t *testing.T) {
	requireChromium(t)
	tripod, err := environment.StartTripod(t.Context(), framework.TripodOptions{
		Args: []string{"--core-replicas=2", "--core-arg=--shutdown-delay-duration=6s"},
	})
	require.NoError(t, err)
	config, err := framework.PortableKubeconfig(tripod.Admin())
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(path, config, 0o600))
	b := open(t, path)
	b.follow("Services", "Services")
	evaluate[chromedp.Void](b, `window.sameDocument = true`)
	tiers := evaluate[[]string](b, `[...document.querySelectorAll(".picture h2")].map(h => h.innerText)`)
	assert.Equal(t, []string{"Clients", "aggregator the one that answers", "core 2 of 2", "extensions 1 of 1"}, tiers)
	assert.Regexp(t, `^The view of the aggregator that started at [-\d]+ [:.\d]+ UTC, with version v1\.`, b.shows("whose view it is", "#view", containing("UTC")))
	replicas, err := tripod.Replicas(t.Context(), "core")
	require.NoError(t, err)
	require.Len(t, replicas, 2)
	first, second := &replicas[0], &replicas[1]
	b.shows("requests of a replica", of("card", first)+" .brief", containing("/s"))
	brief := b.shows("the process that the aggregator knows", "#card-aggregator .brief", containing("CPU"))
	assert.Regexp(t, `\d+% CPU · \d+ MiB$`, brief)
	for _, replica := range []*framework.ComponentStatus{first, second} {
		assert.NotRegexp(t, `CPU|MiB`, b.shows("a replica", of("card", replica), containing("serving")), "what the aggregator does not know is left out")
	}
	b.examine("services-of-a-cluster")

	require.NoError(t, tripod.Kill(t.Context(), second.Replica))
	b.shows("the end of a replica", of("card", second)+".bad", containing("✗"))
	b.shows("the replica returns", of("card", second)+".good", containing("serving"))
	assert.Contains(t, b.shows("what happened", "#changes", containing("→ serving")), "serving → ")
	send := signals(t, tripod, first.Replica)
	send(syscall.SIGSTOP)
	b.shows("a replica hangs", of("card", first)+".bad", containing("frozen"))
	b.visit("explain?verb=get&target=/api/v1/pods")
	assert.Contains(t, b.text(), "The states are those in the view of the aggregator that started at ")
	shown := b.rows()
	require.Len(t, shown, 2)
	assert.Contains(t, shown[0], "serving", "the candidate")
	assert.Contains(t, shown[1], "frozen")
	b.examine("explain-of-a-cluster")
	b.visit("services")
	send(syscall.SIGCONT)
	b.shows("it goes on", of("card", first)+".good", containing("serving"))

	signals(t, tripod, second.Replica)(syscall.SIGTERM)
	b.shows("a replica is about to stop", of("card", second)+".reserved", containing("draining"))
	b.shows("it has started again", of("card", second)+".good", containing("serving"))
	require.NoError(t, tripod.Scale(t.Context(), "core", 1))
	b.shows("the replica is removed", "#tier-core h2", containing("core 1 of 1"))
	b.shows("it is in the timeline", of("lane", second), containing("gone"))

	view := b.shows("the aggregator", "#view", containing("UTC"))
	require.NoError(t, tripod.Kill(t.Context(), "aggregator"))
	after := b.shows("another aggregator answers", "#view", containing("in place of another one"))
	assert.NotEqual(t, view[:70], after[:70], "it has started later")
	b.runsNoOtherScript()
	require.NoError(t, tripod.Stop())
	b.shows("nothing answers", "#failure", containing("does not answer"))
}

// TestServicesNeedARight has a user who may neither read metrics nor list APIServices, and then may read metrics.
func TestServicesNeedARight(t *testing.T) {
	kubeconfig, err := fleet.UserKubeconfig(t.TempDir(), framework.UniqueName("eve"))
	require.NoError(t, err)
	b := open(t, kubeconfig)
	b.visit("services")
	assert.Contains(t, b.text(), "You may not read /metrics of the aggregator")
	assert.Contains(t, b.text(), "You may not list APIServices.")
	assert.Zero(t, evaluate[int](b, `document.querySelectorAll("#picture").length`))
	b.examine("services-refused")
	evaluate[chromedp.Void](b, `window.sameDocument = true`)
	user := strings.TrimSuffix(filepath.Base(kubeconfig), ".kubeconfig")
	require.NoError(t, fleet.Create(t.Context(), fmt.Sprintf(readsMetrics, user, "{kind: User, apiGroup: rbac.authorization.k8s.io, name: "+user+"}")))
	b.shows("the picture", "#tier-core", containing("serving"))
	assert.True(t, evaluate[bool](b, `window.sameDocument`))
	assert.Contains(t, b.text(), "You may not list APIServices.")
}

// TestUsersOfATeamSeeServicesByTheirOwnRights has two users of one console, one of whom may read metrics.
func TestUsersOfATeamSeeServicesByTheirOwnRights(t *testing.T) {
	path := requireChromium(t)
	_, host := serveTeam(t)
	signedIn := func(account string) *browser {
		token := tokenOf(t, account)
		b := openAt(t, path, "https://"+host+"/sign-in", chromedp.Flag("ignore-certificate-errors", true))
		b.do(chromedp.SendKeys("#token", token+kb.Enter), chromedp.WaitVisible(`//button[normalize-space()="Sign out"]`))
		return b
	}
	sees, seesNot := framework.UniqueName("sees"), framework.UniqueName("sees-not")
	one, other := signedIn(sees), signedIn(seesNot)
	require.NoError(t, fleet.Create(t.Context(), fmt.Sprintf(readsMetrics, sees, "{kind: ServiceAccount, namespace: shop, name: "+sees+"}")))
	one.visit("services")
	one.shows("the picture", "#tier-core", containing("serving"))
	for range 2 {
		other.visit("services")
		assert.Contains(t, other.text(), "You may not read /metrics of the aggregator")
		assert.Zero(t, evaluate[int](other, `document.querySelectorAll("#picture").length`))
	}
	one.do(chromedp.Click(`//button[normalize-space()="Sign out"]`), chromedp.WaitVisible("#token"))
	one.visit("services")
	assert.Equal(t, "/sign-in", evaluate[string](one, "location.pathname"))
}
