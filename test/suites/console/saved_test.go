// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/tripod-k8s/tripod/services/search/apis/saved/v1alpha1"
	"github.com/tripod-k8s/tripod/test/framework"
)

func TestASavedSearchOpensByTheRightsOfTheReader(t *testing.T) {
	config, err := framework.PortableKubeconfig(fleet.Admin())
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(path, config, 0o600))
	b := open(t, path)
	name := framework.UniqueName("saved")
	client := dynamic.NewForConfigOrDie(fleet.Admin()).Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.Resource))
	for suffix, parameters := range map[string]map[string]any{
		"-pods":  {"resources": "/pods", "namespaces": "shop"},
		"-since": {"resources": "/pods", "since": "2026-01-01T00:00:00Z"}, // of which the box has no words
	} {
		search := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": v1alpha1.GroupVersion.String(), "kind": "SavedSearch", "metadata": map[string]any{"name": name + suffix},
			"spec": map[string]any{"description": "Pods <script>alert(1)</script>", "parameters": parameters},
		}}
		framework.Eventually(t, "search has defined its kinds", func(ctx context.Context) error {
			_, err := client.Create(ctx, search, metav1.CreateOptions{})
			return err
		})
		t.Cleanup(func() {
			assert.NoError(t, client.Delete(context.WithoutCancel(t.Context()), name+suffix, metav1.DeleteOptions{}))
		})
	}
	framework.Eventually(t, "search has counted it", func(context.Context) error {
		b.visit("saved")
		if text := strings.Join(b.rows(), "\n"); !strings.Contains(text, "Forbidden: The user system:saved-search:"+name+"-pods:") {
			return fmt.Errorf("the page is %s", text)
		}
		return nil
	})
	assert.Zero(t, evaluate[int](b, `document.querySelectorAll("script").length`))
	assert.Contains(t, b.text(), "Pods <script>alert(1)</script>")
	b.examine("saved")
	b.follow(name+"-pods", "Results")
	rows := strings.Join(b.rows(), "\n")
	for _, cluster := range []string{"hub", "east"} {
		assert.Contains(t, rows, cluster+" shop front-6c8-x", "the number is 0, and the administrator may read them")
	}
	b.visit("saved")
	assert.Zero(t, evaluate[int](b, fmt.Sprintf(`[...document.querySelectorAll("main a")].filter(a => a.innerText == "%s-since").length`, name)))
	b.do(chromedp.Click(fmt.Sprintf(`//summary[normalize-space()="Command of %s-since"]`, name)))
	assert.Contains(t, b.text(), "since=2026-01-01")

	kubeconfig, err := fleet.UserKubeconfig(t.TempDir(), "tom")
	require.NoError(t, err)
	tom := open(t, kubeconfig)
	tom.visit("saved")
	assert.Contains(t, tom.text(), "forbidden", "tom may not list them")
	assert.NotContains(t, tom.text(), name)
}
