// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"net/http"
	"testing"
)

// quotaConfiguration is that of the ResourceQuota plugin: licences need a quota.
const quotaConfiguration = `
apiVersion: apiserver.config.k8s.io/v1
kind: ResourceQuotaConfiguration
limitedResources:
- apiGroup: example.com
  resource: licences
  matchContains: [count/licences.example.com]
`

const licence = "{apiVersion: example.com/v1, kind: Licence, metadata: {generateName: gen-}}"

// quota has a status, which a controller would set.
func quota(name, hard, used string) []step {
	manifest := "{apiVersion: v1, kind: ResourceQuota, metadata: {name: " + name + "}, spec: {hard: " + hard + "}"
	return []step{
		post(inNamespace+"resourcequotas", manifest+"}"),
		put(inNamespace+"resourcequotas/"+name+"/status", manifest+", status: {hard: "+hard+", used: "+used+"}}"),
	}
}

func TestQuotaCountsCustomResources(t *testing.T) {
	t.Parallel()
	const exceeded = "exceeded quota: widgets, requested: count/widgets.example.com=1, used: count/widgets.example.com=2, limited: count/widgets.example.com=2"
	shared.run(t, "quota",
		quota("widgets", `{"count/widgets.example.com": "2", pods: "1"}`, `{"count/widgets.example.com": "1", pods: "0"}`),
		// A dry run counts for nothing, and so shows what is left without taking it.
		settle(get(inNamespace+"resourcequotas/widgets").containing(`"used":{"count/widgets.example.com":"1"`)),
		[]step{
			post(licences, licence).refused(http.StatusForbidden, "insufficient quota to consume: count/licences.example.com"),
			post(widgets, widget("{name: a}", "{}")),
			get(inNamespace + "resourcequotas/widgets").containing(`"used":{"count/widgets.example.com":"2"`),
		},
		settle(post(widgets+"?dryRun=All", anyWidget("{}")).refused(http.StatusForbidden, exceeded)),
		[]step{
			post(widgets, anyWidget("{}")).refused(http.StatusForbidden, exceeded),
			patch(widgets+"/a", "{spec: {color: red}}"),
			patch(inNamespace+"resourcequotas/widgets/status", `{status: {used: {"count/widgets.example.com": "0"}}}`),
		},
		settle(post(widgets+"?dryRun=All", anyWidget("{}"))),
		[]step{
			post(widgets, widget("{name: b}", "{}")),
			get(inNamespace + "resourcequotas/widgets"),
		},
		quota("licences", `{"count/licences.example.com": "5"}`, `{"count/licences.example.com": "0"}`),
		settle(post(licences+"?dryRun=All", licence)),
		[]step{post(licences, licence), get(inNamespace + "resourcequotas/licences")})
}
