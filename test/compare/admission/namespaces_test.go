// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"net/http"
	"testing"
)

const nowhere = "/apis/example.com/v1/namespaces/nowhere/widgets"

func TestNamespacesMustExistAndStay(t *testing.T) {
	t.Parallel()
	shared.run(t, "spaces", []step{
		post(nowhere, anyWidget("{}")).refused(http.StatusNotFound, `namespaces \"nowhere\" not found`),
		post(nowhere+"?dryRun=All", anyWidget("{}")).refused(http.StatusNotFound, `namespaces \"nowhere\" not found`),
		put(nowhere+"/a", widget("{name: a, namespace: nowhere}", "{}")).refused(http.StatusNotFound, "not found"),
		patch(nowhere+"/a", "{metadata: {labels: {a: b}}}").refused(http.StatusNotFound, "not found"),
		del(nowhere+"/a").refused(http.StatusNotFound, "not found"),
		get(nowhere),
		post(widgets, widget("{name: a}", "{}")),
		post(gadgets, `{apiVersion: example.com/v1, kind: Gadget, metadata: {name: without-namespace}}`),
		del("/api/v1/namespaces/{ns}"),
	}, settle(
		post(widgets, probe("{}")).refused(http.StatusForbidden, "because it is being terminated"),
	), []step{
		post(widgets, anyWidget("{}")).refused(http.StatusForbidden, "because it is being terminated"),
		patch(widgets+"/a", "{spec: {color: red}}"),
		del(widgets + "/a"),
	})
}
