// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework"
)

// explained returns what the page says about a request.
func (b *browser) explained(verb, target, namespace, user, groups string) (service, allowed string) {
	b.t.Helper()
	b.visit("explain?" + url.Values{"verb": {verb}, "target": {target}, "namespace": {namespace}, "user": {user}, "groups": {groups}}.Encode())
	return run(b, chromedp.Text("#service")), run(b, chromedp.Text("#allowed"))
}

func TestARequestIsExplained(t *testing.T) {
	config, err := framework.PortableKubeconfig(fleet.Admin())
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(path, config, 0o600))
	b := open(t, path)
	b.visit("explain")
	b.examine("explain-form")
	b.do(chromedp.SendKeys("#target", "/api/v1/namespaces/shop/configmaps/settings"+kb.Enter), chromedp.WaitVisible("#service"))
	assert.Equal(t, "core", run(b, chromedp.Text("#service")))
	assert.Contains(t, run(b, chromedp.Text("#allowed")), "Allowed for you.")
	b.examine("explain")
	for _, test := range []struct{ verb, target, namespace, user, groups, service, allowed string }{
		{"get", "configmaps/settings", "shop", "tom", "", "core", `Allowed for tom. RBAC: allowed by RoleBinding "reads-settings/shop" of Role "reads-settings" to User "tom"`},
		{"list", "pods", "shop", "tom", "", "core", "Not allowed for tom. No authorizer allows it, as no binding of RBAC does."},
		{"delete", "deploy/front", "shop", "", "", "core", "Allowed for you."},
		{"watch", "pediaclusters.cluster.clusterpedia.io", "", "tom", "", "extensions", "Not allowed for tom."},
		{"create", "customresourcedefinitions", "", "jane", "a, system:masters", "extensions", "Allowed for jane, a, system:masters."},
		{"list", "/apis/clusterpedia.io/v1beta1/resources/api/v1/pods", "", "ann", "", "search", "Not known for ann. Search decides that by its own rules"},
		{"get", "/apis/apiregistration.k8s.io/v1/apiservices", "", "", "", "aggregator", "Allowed for you."},
		{"get", "/apis", "", "", "", "aggregator", "Allowed for you."},
		{"get", "/version", "", "tom", "system:unauthenticated", "core", `of ClusterRole "system:public-info-viewer"`}, // and no other
	} {
		service, allowed := b.explained(test.verb, test.target, test.namespace, test.user, test.groups)
		assert.Equal(t, test.service, service, "%s %s", test.verb, test.target)
		assert.Contains(t, allowed, test.allowed, "%s %s", test.verb, test.target)
	}
	for _, target := range []string{"<script>alert(1)</script>", "/apis/<script>alert(1)</script>/v1/x", "//evil.example.com/api", "https://evil.example.com/", "pods/../..", "deploy/front", "/%zz"} {
		b.visit("explain?" + url.Values{"verb": {"get"}, "target": {target}, "user": {`"><img src=x onerror=alert(2)>`}}.Encode())
		assert.Zero(t, evaluate[int](b, `document.querySelectorAll("script, img[src=x]").length`), target)
	}
	b.visit("explain?verb=fly&target=pods")
	assert.Contains(t, b.text(), `"fly" is no verb`)
}

// TestAReaderExplainsOnlyOwnRequests has a reader who may neither list APIServices nor ask what others may do.
func TestAReaderExplainsOnlyOwnRequests(t *testing.T) {
	kubeconfig, err := fleet.UserKubeconfig(t.TempDir(), "tom")
	require.NoError(t, err)
	b := open(t, kubeconfig)
	service, allowed := b.explained("get", "configmaps/settings", "shop", "", "")
	assert.Equal(t, "not known", service)
	assert.Contains(t, b.text(), "You may not list APIServices")
	assert.Contains(t, allowed, "Allowed for you.")
	service, _ = b.explained("get", "/apis", "", "", "")
	assert.Equal(t, "aggregator", service)
	_, allowed = b.explained("get", "secrets", "shop", "", "")
	assert.Contains(t, allowed, "Not allowed for you.")
	_, allowed = b.explained("get", "secrets", "shop", "ann", "")
	assert.Contains(t, allowed, "Not known for ann. You may not ask that:")
}
