// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework"
)

// card is the text of a replica in the picture, or empty.
func (b *browser) card(replica string) string {
	b.t.Helper()
	return evaluate[string](b, fmt.Sprintf(`document.getElementById("card-%s")?.innerText ?? ""`, replica))
}

// shows waits until the text of an element meets a condition. The page renews itself meanwhile.
func (b *browser) shows(what, selector string, meets func(text string) bool) (text string) {
	b.t.Helper()
	framework.Eventually(b.t, what, func(context.Context) error {
		var err error
		script := fmt.Sprintf(`document.querySelector(%q)?.innerText ?? ""`, selector)
		if text, err = chromedp.Run(b.ctx, chromedp.Evaluate[string](script)); err == nil && !meets(text) {
			err = fmt.Errorf("it shows %q", text)
		}
		return err
	})
	return text
}

func containing(part string) func(string) bool {
	return func(text string) bool { return strings.Contains(text, part) }
}

// TestServicesAreLive looks at the picture of an instance, while a replica is killed, hangs and returns.
func TestServicesAreLive(t *testing.T) {
	path := requireChromium(t)
	tripod, err := environment.StartTripod(t.Context(), framework.TripodOptions{Args: []string{
		"--search", "--console", "--core-replicas=2", "--core-arg=--shutdown-delay-duration=6s",
	}})
	require.NoError(t, err)
	b := openAt(t, path, printedAddress(t, tripod.Process))
	b.follow("Services", "Services")
	evaluate[chromedp.Void](b, `window.sameDocument = true`)
	tiers := evaluate[[]string](b, `[...document.querySelectorAll(".picture h2")].map(h => h.innerText)`)
	assert.Equal(t, []string{"Clients", "aggregator 1 of 1", "core 2 of 2", "extensions 1 of 1", "search 1 of 1", "etcd 1 of 1"}, tiers)
	rows := evaluate[[]string](b, `[...document.querySelectorAll("#replicas tbody th")].map(c => c.innerText)`)
	assert.Equal(t, []string{"aggregator-0", "core-0", "core-1", "extensions-0", "search-0", "etcd-0"}, rows)
	b.shows("the state for the aggregator", "#card-core-1", containing("serving"))
	b.shows("the owner of APIServices", "#owner-core summary", containing("available"))

	b.takesTraffic(tripod.Admin())
	b.examine("services")

	// A person reads on while the page changes.
	b.do(chromedp.Click("#owner-core summary"), chromedp.Focus("#owner-core summary"))
	require.NoError(t, tripod.Kill(t.Context(), "core-1"))
	b.shows("the end of a replica", "#changes", func(text string) bool {
		return strings.Contains(text, "core-1 died after") && strings.Contains(text, "signal: killed")
	})
	b.shows("the replica returns", "#card-core-1", containing("serving"))
	b.shows("its restart", "#row-core-1", func(text string) bool { return strings.Contains(text, "\t1\t") })
	story := evaluate[string](b, `document.querySelector("#lane-core-1 svg").getAttribute("aria-label")`)
	assert.Regexp(t, `serving.* gone from .* returning from .* serving from `, story)

	// The aggregator finds out what the instance cannot see at once.
	send := signals(t, tripod, "core-0")
	send(syscall.SIGSTOP)
	b.shows("a replica hangs", "#card-core-0.bad", containing("frozen"))
	send(syscall.SIGCONT)
	b.shows("it goes on", "#card-core-0.good", containing("serving"))
	assert.Contains(t, b.shows("what happened", "#news", containing("core-0")), "→ serving", "for a screen reader")
	assert.True(t, evaluate[bool](b, `document.getElementById("owner-core").open && document.activeElement.closest("details")?.id === "owner-core"`))
	assert.True(t, evaluate[bool](b, `window.sameDocument`), "no page was loaded again")
	evaluate[chromedp.Void](b, `document.getElementById("timeline").scrollIntoView()`)
	b.shoot("timeline")

	removed := make(chan error, 1)
	go func() { removed <- tripod.Scale(t.Context(), "core", 1) }()
	b.shows("a replica is about to stop", "#card-core-1.reserved", containing("draining"))
	require.NoError(t, <-removed)
	b.shows("a replica is removed", ".picture", func(text string) bool { return !strings.Contains(text, "core-1") })
	b.shows("it is in the timeline", "#lane-core-1", containing("gone"))
	b.canBePaused()
	b.runsNoOtherScript()

	require.NoError(t, tripod.Stop())
	b.shows("the console has ended", "#lost", containing("does not answer"))
	assert.NotEmpty(t, b.card("core-0"), "the last answer stays")
}

// signals returns what sends a signal to the process that a replica has now.
func signals(t *testing.T, tripod *framework.Tripod, replica string) func(syscall.Signal) {
	t.Helper()
	process, err := tripod.Component(t.Context(), replica)
	require.NoError(t, err)
	return func(signal syscall.Signal) { require.NoError(t, syscall.Kill(process.PID, signal)) }
}

// takesTraffic sends requests until the page shows them.
func (b *browser) takesTraffic(config *rest.Config) {
	b.t.Helper()
	client, err := rest.HTTPClientFor(config)
	require.NoError(b.t, err)
	framework.Eventually(b.t, "requests are in the picture", func(ctx context.Context) error {
		for range 20 {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/api/v1/namespaces", nil)
			if err != nil {
				return err
			}
			response, err := client.Do(req)
			if err != nil {
				return err
			}
			if err := response.Body.Close(); err != nil {
				return err
			}
		}
		flow := evaluate[string](b, `document.querySelector("#branch-core .edge").className + " " + document.querySelector("#branch-core .edge").innerText`)
		if !strings.Contains(flow, "/s") || strings.Contains(flow, "flow0") {
			return fmt.Errorf("the edge is %q", flow)
		}
		return nil
	})
	brief := b.shows("numbers of a replica", "#card-core-0 .brief", func(text string) bool {
		return strings.Contains(text, "CPU") && strings.Contains(text, "%") && strings.Contains(text, "/s")
	})
	assert.Regexp(b.t, `watches · \d+% CPU · \d+ MiB$`, brief)
	b.shows("how long requests take", "#row-core-0", containing("≤ "))
	b.shows("requests of etcd", "#card-etcd-0 .brief", containing("/s"))
}

// canBePaused stops the renewal, and has it go on.
func (b *browser) canBePaused() {
	b.t.Helper()
	version := `document.getElementById("live").dataset.version`
	b.do(chromedp.Click("#pause"))
	assert.Equal(b.t, "true", evaluate[string](b, `document.getElementById("pause").getAttribute("aria-pressed")`))
	paused := evaluate[string](b, version)
	// The console has newer pictures, which the page would have, too.
	evaluate[chromedp.Void](b, `(async () => { for (let i = 0; i < 2; i++) await (await fetch("services/live?after=" + `+version+`)).text() })()`, chromedp.EvalAwaitPromise)
	assert.Equal(b.t, paused, evaluate[string](b, version))
	b.do(chromedp.Click("#pause"))
	framework.Eventually(b.t, "the page goes on", func(context.Context) error {
		if evaluate[string](b, version) == paused {
			return fmt.Errorf("it still has version %s", paused)
		}
		return nil
	})
}

// runsNoOtherScript fails if the page of services runs what a mistake would let in.
func (b *browser) runsNoOtherScript() {
	b.t.Helper()
	refused := evaluate[string](b, `(() => { try { document.body.insertAdjacentHTML("beforeend", "<img src=x onerror=\"document.title = 'pwned'\">"); return "" }
		catch (e) { return e.name } })()`)
	assert.Equal(b.t, "TypeError", refused, "no script may write HTML")
	refused = evaluate[string](b, `(() => { try { document.createElement("img").setAttribute("onerror", "document.title = 'pwned'"); return "" }
		catch (e) { return e.name } })()`)
	assert.Equal(b.t, "TypeError", refused, "or a handler")
	evaluate[chromedp.Void](b, `{ const a = document.createElement("a"); a.href = "javascript:document.title = 'pwned'"; document.body.append(a); a.click() }`)
	title := evaluate[string](b, `new Promise(done => setTimeout(() => done(document.title), 0))`, chromedp.EvalAwaitPromise)
	assert.Equal(b.t, "Services - Tripod console", title)
}
