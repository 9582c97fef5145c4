// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework"
)

// pageTimeout only ends a test that would never end.
const pageTimeout = 5 * time.Minute

// chromium returns the path of the browser, or why there is none.
func chromium() (string, error) {
	const name = "chromium"
	switch os.Getenv("TEST_CHROMIUM") {
	case "":
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
		return "", errors.New("not tested with a browser: chromium is missing: apt-get install chromium (TEST_CHROMIUM=1 makes this an error)")
	case "0":
		return "", errors.New("not tested with a browser: TEST_CHROMIUM=0")
	}
	return name, nil // a test fails if it cannot start it
}

// requireChromium returns the path of the browser, and skips the test if there is none.
func requireChromium(t *testing.T) string {
	t.Helper()
	path, err := chromium()
	if err != nil {
		t.Skip(err)
	}
	return path
}

// browser is a tab of a new browser.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu sync.Mutex
	// faults are what no page may do: dialogs, errors, and requests of other servers.
	faults []string
	home   string
	// issuer is the one server besides at which a page may send the browser, if it is not empty.
	issuer string
}

var address = regexp.MustCompile(`http://127\.0\.0\.1:\d+/\w+/sign-in\?token=\w+`)

// startConsole starts `tripod console` for a user, and returns the address that it prints.
func startConsole(t *testing.T, kubeconfig string) string {
	t.Helper()
	process, err := environment.Start(framework.Command{
		Name: framework.UniqueName("console"), Path: environment.Binary("tripod"), Args: []string{"console", "--kubeconfig", kubeconfig},
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, process.Stop()) })
	return printedAddress(t, process)
}

// printedAddress returns the address of the console that a process prints.
func printedAddress(t *testing.T, process *framework.Process) (found string) {
	t.Helper()
	framework.Eventually(t, "the address of the console is printed", func(context.Context) error {
		text, err := os.ReadFile(process.Log)
		if found = address.FindString(string(text)); err == nil && found == "" {
			err = fmt.Errorf("the output is %q", text)
		}
		return err
	})
	return found
}

// open signs a new browser in to a console for a user.
func open(t *testing.T, kubeconfig string) *browser {
	t.Helper()
	path := requireChromium(t)
	return openAt(t, path, startConsole(t, kubeconfig))
}

// openAt opens an address in a new browser, whose program is at a path.
func openAt(t *testing.T, path, at string, more ...chromedp.ExecAllocatorOption) *browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WindowSize(1200, 900))
	options = append(options, more...)
	ctx, cancel := context.WithTimeout(t.Context(), pageTimeout)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	home, _, _ := strings.Cut(at, "sign-in")
	b := &browser{t: t, ctx: ctx, home: home}
	require.NoError(t, chromedp.Listen(ctx, b.listen))
	_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	require.NoError(t, err)
	b.do(chromedp.Navigate(at), chromedp.WaitVisible("h1"))
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		assert.Empty(t, b.faults)
	})
	return b
}

func (b *browser) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch event := event.(type) {
	case *page.EventJavascriptDialogOpening:
		b.faults = append(b.faults, "a dialog: "+event.Message)
		go chromedp.Call(b.ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{}) //nolint:errcheck // the test fails already
	case *cdpruntime.EventExceptionThrown:
		b.faults = append(b.faults, "an exception: "+event.ExceptionDetails.Text)
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(event.Request.URL, b.home) && (b.issuer == "" || !strings.HasPrefix(event.Request.URL, b.issuer+"/")) {
			b.faults = append(b.faults, "a request of "+event.Request.URL)
		}
	}
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Do(b.ctx, steps...))
}

// run returns the result of an action.
func run[T any](b *browser, action chromedp.Action[T]) T {
	b.t.Helper()
	result, err := chromedp.Run(b.ctx, action)
	require.NoError(b.t, err)
	return result
}

// evaluate returns the value of a script, which the rules of the page do not hold back.
func evaluate[T any](b *browser, script string, options ...chromedp.EvaluateOption) T {
	b.t.Helper()
	return run(b, chromedp.Evaluate[T](script, options...))
}

// visit opens a page by its path and parameters, such as "?q=kind:Pod".
func (b *browser) visit(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.home+path), chromedp.WaitVisible("h1"))
}

func searchFor(text string) string { return "?" + url.Values{"q": {text}}.Encode() }

// follow follows a link by its text, and waits for a page with a heading.
func (b *browser) follow(link, heading string) {
	b.t.Helper()
	b.do(chromedp.Click(fmt.Sprintf(`//a[normalize-space()=%q]`, link)), chromedp.WaitVisible(fmt.Sprintf(`//h1[normalize-space()=%q]`, heading)))
}

// text returns the text of the page.
func (b *browser) text() string {
	b.t.Helper()
	return run(b, chromedp.Text("body"))
}

// rows returns the cells of a table, separated by blanks.
func (b *browser) rows() []string {
	b.t.Helper()
	return evaluate[[]string](b, `[...document.querySelectorAll("tbody tr")].map(r => [...r.cells].map(c => c.innerText).join(" "))`)
}

// axe are the rules of axe-core.
var axe = sync.OnceValues(func() (string, error) {
	file, err := os.Open("testdata/axe.min.js.gz")
	if err != nil {
		return "", err
	}
	defer file.Close()
	plain, err := gzip.NewReader(file)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(plain)
	return string(text), err
})

// examine fails if axe finds that a person cannot use the page, in light and in dark, or if a narrow page has to be moved sideways.
func (b *browser) examine(name string) {
	b.t.Helper()
	rules, err := axe()
	require.NoError(b.t, err)
	for _, scheme := range []string{"light", "dark"} {
		b.media(scheme)
		evaluate[chromedp.Void](b, rules)
		found := evaluate[[]string](b, `axe.run(document, {resultTypes: ["violations"]})
			.then(r => r.violations.flatMap(v => v.nodes.map(n => v.impact + " " + v.id + ": " + n.html)))`, chromedp.EvalAwaitPromise)
		assert.Empty(b.t, found, "%s, %s", name, scheme)
		b.shoot(name + "-" + scheme)
	}
	b.media("light")
	b.do(chromedp.EmulateViewport(320, 640))
	assert.LessOrEqual(b.t, evaluate[int](b, `document.scrollingElement.scrollWidth`), 320, "%s is too wide for a telephone", name)
	b.do(chromedp.EmulateViewport(1200, 900))
}

// media shows the page in the colours of a scheme.
func (b *browser) media(scheme string) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	require.NoError(b.t, err)
}

// pictures are those of docs/console.md.
var pictures = []string{"results-light", "object-dark", "history", "services-light", "services-of-a-cluster-light", "timeline"}

// shoot writes a picture of the page into the folder that CONSOLE_SCREENSHOTS names.
func (b *browser) shoot(name string) {
	b.t.Helper()
	folder := os.Getenv("CONSOLE_SCREENSHOTS")
	if folder == "" || !slices.Contains(pictures, name) {
		return
	}
	picture := run(b, chromedp.CaptureScreenshot())
	require.NoError(b.t, os.WriteFile(filepath.Join(folder, "console-"+name+".png"), picture, 0o644))
}
