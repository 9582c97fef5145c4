// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/chromedp/chromedp"
)

// visits is how often Chromium opens each page.
const visits = 20

// painted waits until the page is to be seen, and returns how long that took, and how long until all was loaded, in milliseconds.
const painted = `new Promise(done => {
	const look = () => {
		const paint = performance.getEntriesByName("first-contentful-paint")[0], page = performance.getEntriesByType("navigation")[0]
		paint && page.duration ? done([paint.startTime, page.duration]) : requestAnimationFrame(look)
	}
	look()
})`

// addressBox is the box for words. The main job of the console begins in it.
const addressBox = `input[name="q"]`

// shown is what pages took in Chromium, in milliseconds: until something was to be seen, and until all was.
type shown struct {
	Name                      string
	Painted, MaxPainted, Load float64
}

// show opens the pages of a console in Chromium, each with other values, and then goes the way of a user through them.
func (b *benchmark) show(ctx context.Context, signIn string, apps int) (all []shown, err error) {
	path, err := exec.LookPath("chromium")
	if err != nil {
		return nil, fmt.Errorf("%w: apt-get install chromium", err)
	}
	ctx, cancel := chromedp.NewExecAllocator(ctx,
		append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WindowSize(1200, 900))...)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(signIn), chromedp.WaitVisible("h1")); err != nil {
		return nil, fmt.Errorf("sign in: %w", err)
	}
	root, _, _ := strings.Cut(signIn, "sign-in")
	for _, what := range views {
		one := shown{Name: what.name}
		var first, whole []float64
		for n := range visits {
			took, err := open(ctx, root+what.path(n+1, apps, b.clusters), what.shows(n+1, apps))
			if err != nil {
				return all, fmt.Errorf("chromium: %s: %w", what.name, err)
			}
			first, whole = append(first, took[0]), append(whole, took[1])
		}
		slices.Sort(first)
		slices.Sort(whole)
		one.Painted, one.MaxPainted, one.Load = first[visits/2], first[visits-1], whole[visits/2]
		logf("chromium: %s: %.0f ms to the first paint, %.0f ms to all", one.Name, one.Painted, one.Load)
		all = append(all, one)
	}
	return all, walk(ctx, root, podOf(1, apps))
}

// open opens a page that must have a text, and returns what it took.
func open(ctx context.Context, address, text string) ([]float64, error) {
	if err := chromedp.Do(ctx, chromedp.Navigate(address), chromedp.WaitVisible("h1")); err != nil {
		return nil, err
	}
	body, err := chromedp.Run(ctx, chromedp.Text("body"))
	if err == nil && !strings.Contains(body, text) {
		err = fmt.Errorf("the page has no %q: %.2000s", text, body)
	}
	if err != nil {
		return nil, err
	}
	took, err := chromedp.Run(ctx, chromedp.Evaluate[[]float64](painted, chromedp.EvalAwaitPromise))
	if err == nil && len(took) != 2 {
		err = errors.New("the browser does not say how long the page took")
	}
	return took, err
}

// walk types a word, opens one of the objects that have it, and follows the link to its owner.
func walk(ctx context.Context, root, pod string) error {
	replicaSet := pod[:strings.LastIndex(pod, "-")]
	return chromedp.Do(ctx, chromedp.Navigate(root), chromedp.WaitVisible(addressBox), chromedp.SendKeys(addressBox, pod+"\r"),
		chromedp.Click(fmt.Sprintf("//tbody//a[normalize-space()=%q]", pod)), heading(pod),
		chromedp.Click(fmt.Sprintf("//a[contains(normalize-space(), %q)]", replicaSet)), heading(replicaSet))
}

// heading waits for the page of an object.
func heading(name string) chromedp.Action[chromedp.Void] {
	return chromedp.WaitVisible(fmt.Sprintf("//h1[contains(normalize-space(), %q)]", name))
}
