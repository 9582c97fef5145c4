// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"net/http"
	"testing"
)

// owned is the metadata of an object that belongs to another. Whether that is there is not looked at.
func owned(name, apiVersion, kind string, block bool) string {
	return fmt.Sprintf(`{%s, ownerReferences: [{apiVersion: %s, kind: %s, name: owner, uid: 6c8f1c8a-7a0a-4c1e-9f6a-2d2f1f0f3a11, blockOwnerDeletion: %v}]}`,
		name, apiVersion, kind, block)
}

func ownedWidget(apiVersion, kind string, block bool) string {
	return widget(owned("generateName: gen-", apiVersion, kind, block), "{}")
}

func TestOwnerReferencesNeedPermission(t *testing.T) {
	t.Parallel()
	const mayWrite = `[{apiGroups: [example.com, ""], resources: [widgets, configmaps], verbs: [get, create, update, patch]}]`
	const mayDelete = `[{apiGroups: [example.com, ""], resources: [widgets, configmaps], verbs: [get, create, update, patch, delete]},
  {apiGroups: [example.com, "", apps], resources: [widgets/finalizers, configmaps/finalizers, deployments/finalizers], verbs: [update]}]`
	const cannotFinalize = "can't set finalizers on"
	owner := owned("name: plain", "v1", "ConfigMap", false)
	shared.run(t, "owners",
		allow("writer", "writer", mayWrite),
		allow("deleter", "deleter", mayDelete),
		settle(
			post(widgets, probe("{}")).as("writer"), post(widgets, probe("{}")).as("deleter"),
			// Definitions are younger than what admission knows of kinds at first.
			post(widgets, ownedWidget("example.com/v1", "Widget", true)).as("writer").refused(http.StatusForbidden, cannotFinalize),
			post(widgets, ownedWidget("apiregistration.k8s.io/v1", "APIService", true)).as("writer").refused(http.StatusForbidden, cannotFinalize),
			post(inNamespace+"configmaps", configMap(owned("generateName: settle-", "example.com/v1", "Widget", true), "{}")).
				as("writer").refused(http.StatusForbidden, cannotFinalize),
		),
		[]step{
			post(widgets, ownedWidget("v1", "ConfigMap", false)).as("writer"),
			post(widgets, ownedWidget("v1", "ConfigMap", true)).as("writer").refused(http.StatusForbidden, cannotFinalize),
			post(widgets, ownedWidget("apps/v1", "Deployment", true)).as("writer").refused(http.StatusForbidden, cannotFinalize),
			post(widgets, ownedWidget("example.com/v1", "Gadget", true)).as("writer").refused(http.StatusForbidden, cannotFinalize),
			post(widgets, ownedWidget("nobody.example.com/v1", "Thing", true)).as("writer").refused(http.StatusForbidden, "cannot find RESTMapping"),
			post(widgets, ownedWidget("example.com/v2", "Widget", true)).as("writer").refused(http.StatusForbidden, "cannot find RESTMapping"),
			post(widgets, ownedWidget("v1", "ConfigMap", true)).as("deleter"),
			post(widgets, ownedWidget("apps/v1", "Deployment", true)).as("deleter"),
			post(widgets, ownedWidget("example.com/v1", "Widget", true)).as("deleter"),
			post(widgets, ownedWidget("example.com/v1", "Gadget", true)).as("deleter").refused(http.StatusForbidden, cannotFinalize),
			post(widgets, ownedWidget("nobody.example.com/v1", "Thing", true)),

			post(widgets, widget("{name: plain}", "{}")).as("writer"),
			patch(widgets+"/plain", "{metadata: "+owner+"}").as("writer").refused(http.StatusForbidden, "cannot set an ownerRef on a resource you can't delete"),
			patch(widgets+"/plain/status", "{metadata: "+owner+"}"),
			patch(widgets+"/plain", "{metadata: {labels: {a: b}}}").as("writer"),
			patch(widgets+"/plain", "{metadata: "+owner+"}").as("deleter"),
			apply(widgets+"/plain", widget(owner, "{color: red}")).as("writer"),

			post(inNamespace+"configmaps", configMap(owned("name: a", "example.com/v1", "Widget", true), "{}")).as("deleter"),
			post(inNamespace+"configmaps", configMap(owned("name: b", "example.com/v1", "Gadget", true), "{}")).as("deleter").refused(http.StatusForbidden, cannotFinalize),
		})
}
