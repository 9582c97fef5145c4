// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"net/http"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/both"
)

// Plugins that are off by default, or of which the shared servers would be of no use to other tests.
func TestPluginsByFlags(t *testing.T) {
	own, err := start(t.Context(), framework.ForTest(t), "--enable-admission-plugins=NamespaceAutoProvision")
	require.NoError(t, err)
	restart := func(t *testing.T, args ...string) {
		t.Helper()
		starting, ctx := errgroup.WithContext(t.Context())
		for _, s := range own {
			starting.Go(func() error { return s.process.Restart(ctx, slices.Concat(args, both.EmulationFlags())...) })
		}
		require.NoError(t, starting.Wait())
	}
	t.Run("NamespaceAutoProvision", func(t *testing.T) {
		own.take(t, "provision", []step{
			post(widgets+"?dryRun=All", anyWidget("{}")).refused(http.StatusNotFound, "not found"),
			post(widgets, widget("{name: a}", "{}")),
			get("/api/v1/namespaces/{ns}"),
			patch("/apis/example.com/v1/namespaces/nowhere/widgets/a", "{spec: {color: red}}").refused(http.StatusNotFound, "not found"),
			get("/api/v1/namespaces/nowhere").refused(http.StatusNotFound, "not found"),
			post(gadgets, "{apiVersion: example.com/v1, kind: Gadget, metadata: {name: a}}"),
		})
	})
	t.Run("without NamespaceLifecycle", func(t *testing.T) {
		restart(t, "--disable-admission-plugins=NamespaceLifecycle,ServiceAccount,ValidatingAdmissionWebhook")
		own.take(t, "missing", []step{
			post(widgets, widget("{name: a}", "{}")),
			get("/api/v1/namespaces/{ns}").refused(http.StatusNotFound, "not found"),
		})
	})
	t.Run("NamespaceExists alone", func(t *testing.T) {
		restart(t, "--enable-admission-plugins=NamespaceExists", "--disable-admission-plugins=NamespaceLifecycle")
		own.take(t, "missing", []step{post(widgets, widget("{name: b}", "{}")).refused(http.StatusNotFound, "not found")})
		own.take(t, "leaving", []step{
			post("/api/v1/namespaces", "{apiVersion: v1, kind: Namespace, metadata: {name: leaving}}"),
			del("/api/v1/namespaces/{ns}"),
			post(widgets, widget("{name: b}", "{}")), // which NamespaceLifecycle would refuse
		})
	})
	t.Run("AlwaysDeny", func(t *testing.T) {
		// kube-apiserver does not stop while it may not remove itself from its endpoints.
		t.Cleanup(func() {
			for _, s := range own {
				assert.NoError(t, s.process.Process.Signal(syscall.SIGKILL))
			}
		})
		restart(t, "--enable-admission-plugins=AlwaysDeny,AlwaysAdmit")
		const denied = "admission control is denying all modifications"
		own.take(t, "provision", []step{
			get(widgets + "/a"),
			post(widgets, widget("{name: c}", "{}")).refused(http.StatusForbidden, denied),
			post(widgets+"?dryRun=All", widget("{name: c}", "{}")).refused(http.StatusForbidden, denied),
			patch(widgets+"/a", "{spec: {color: red}}").refused(http.StatusForbidden, denied),
			patch(widgets+"/a/status", "{status: {replicas: 1}}").refused(http.StatusForbidden, denied),
			del(widgets+"/a").refused(http.StatusForbidden, denied),
			del(widgets).refused(http.StatusForbidden, denied),
			post(gadgets, "{apiVersion: example.com/v1, kind: Gadget, metadata: {name: b}}").refused(http.StatusForbidden, denied),
			del("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com").refused(http.StatusForbidden, denied),
			post(apiServices, apiService("v1", "", 9)).refused(http.StatusForbidden, denied),
			patch(apiServices+"/v1.apps", "{metadata: {labels: {a: b}}}").refused(http.StatusForbidden, denied),
			del(apiServices+"/v1.apps").refused(http.StatusForbidden, denied),
		})
	})
}
