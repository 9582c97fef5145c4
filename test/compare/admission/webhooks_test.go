// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"net/http"
	"testing"
)

// hook is one webhook of a configuration.
type hook struct {
	// path is what the webhook does: see hookServer.
	path string
	// client is where it is, if not at a URL of hookServer, and more are further fields.
	client, more string
}

func (h hook) manifest(name string) string {
	client := h.client
	if client == "" {
		client = `{url: "{hook}/` + h.path + `", caBundle: "{ca}"}`
	}
	more := h.more
	if more == "" {
		more = "sideEffects: None"
	}
	return fmt.Sprintf(`{name: %s.example.com, admissionReviewVersions: [v1], clientConfig: %s, namespaceSelector: {matchLabels: {team: "{ns}"}},
  rules: [{apiGroups: [example.com], apiVersions: [v1], operations: ["*"], resources: ["widgets", "widgets/*"]}], %s}`, name, client, more)
}

// hooked makes a webhook configuration of a kind, Mutating or Validating, with one webhook.
func hooked(kind, name string, h hook) []step {
	path := map[string]string{"Mutating": "mutating", "Validating": "validating"}[kind] + "webhookconfigurations"
	return []step{post(policies+path, fmt.Sprintf("{apiVersion: admissionregistration.k8s.io/v1, kind: %sWebhookConfiguration, metadata: {name: \"%s.{ns}\"}, webhooks: [%s]}",
		kind, name, h.manifest(name)))}
}

// labelled is the metadata of a widget for certain webhooks.
func labelled(labels string) string { return "{generateName: gen-, labels: {" + labels + "}}" }

// only restricts a webhook to objects with a label.
func only(label string) string { return "objectSelector: {matchLabels: {" + label + `: "yes"}}` }

// with is what settles a webhook with an object selector.
func with(label string) string {
	return widget(`{generateName: settle-, labels: {`+label+`: "yes"}}`, "{}")
}

func TestWebhooks(t *testing.T) {
	t.Parallel()
	shared.run(t, "webhooks",
		[]step{
			post(inNamespace+"services", "{apiVersion: v1, kind: Service, metadata: {name: hook}, spec: {type: ExternalName, externalName: localhost}}"),
		},
		hooked("Mutating", "a-count", hook{path: "count/count", more: "sideEffects: None, reinvocationPolicy: IfNeeded, " + only("again")}),
		hooked("Mutating", "b-copy", hook{path: "copy/count/copied", more: "sideEffects: None, reinvocationPolicy: Never, " + only("again")}),
		hooked("Mutating", "by-service", hook{more: "sideEffects: None, matchConditions: [{name: some, expression: \"request.operation != 'DELETE' && has(object.metadata.labels) && object.metadata.labels[?'service'].orValue('') == 'yes'\"}]",
			client: `{service: {namespace: "{ns}", name: hook, port: {port}, path: "/{side}/label/by/service"}, caBundle: "{ca}"}`}),
		hooked("Validating", "deny", hook{path: "deny", more: "sideEffects: None, " + only("deny")}),
		hooked("Validating", "warn", hook{path: "warn", more: "sideEffects: None, " + only("warn")}),
		hooked("Validating", "effects", hook{path: "allow", more: "sideEffects: NoneOnDryRun, " + only("effects")}),
		hooked("Validating", "broken", hook{path: "broken", more: "sideEffects: None, failurePolicy: Fail, " + only("broken")}),
		hooked("Validating", "slow", hook{path: "slow", more: "sideEffects: None, failurePolicy: Fail, timeoutSeconds: 1, " + only("slow")}),
		hooked("Validating", "unknown", hook{path: "allow", client: `{service: {namespace: "{ns}", name: missing}}`, more: "sideEffects: None, failurePolicy: Fail, " + only("unknown")}),
		hooked("Validating", "ignored", hook{path: "broken", client: `{url: "https://127.0.0.1:1/nobody"}`, more: "sideEffects: None, failurePolicy: Ignore, " + only("ignored")}),
		hooked("Validating", "refused", hook{client: `{url: "https://127.0.0.1:1/nobody"}`, more: "sideEffects: None, failurePolicy: Fail, " + only("refused")}),
		settle(
			post(widgets, with("again")).containing(`"copied":"was-`),
			post(widgets, with("service")).containing(`"by":"service"`),
			post(widgets, with("deny")).refused(http.StatusTeapot, "no widgets today"),
			post(widgets, with("warn")).containing("mind the widgets"),
			post(widgets, with("broken")).refused(http.StatusInternalServerError, "out of order"),
			post(widgets, with("slow")).refused(http.StatusInternalServerError, "failed calling webhook"),
			post(widgets, with("unknown")).refused(http.StatusInternalServerError, `service \"missing\" not found`),
			post(widgets, with("refused")).refused(http.StatusInternalServerError, "connection refused"),
		),
		[]step{
			post(widgets, widget(labelled(`again: "yes"`), "{}")),
			post(widgets, widget(labelled(`service: "yes"`), "{}")).containing(`"by":"service"`),
			post(widgets, widget(labelled(`deny: "yes"`), "{}")).refused(http.StatusTeapot, "no widgets today"),
			post(widgets, widget(labelled(`warn: "yes"`), "{}")).containing("mind the widgets"),
			post(widgets, widget(labelled(`warn: "yes", deny: "yes"`), "{}")).refused(http.StatusTeapot, ""),
			post(widgets, widget(labelled(`broken: "yes"`), "{}")).refused(http.StatusInternalServerError, "out of order"),
			post(widgets, widget(labelled(`slow: "yes"`), "{}")).refused(http.StatusInternalServerError, "context deadline exceeded"),
			post(widgets, widget(labelled(`unknown: "yes"`), "{}")).refused(http.StatusInternalServerError, "not found"),
			post(widgets, widget(labelled(`ignored: "yes"`), "{}")),
			post(widgets, widget(labelled(`refused: "yes"`), "{}")).refused(http.StatusInternalServerError, "connection refused"),
		},
		dryRuns, subresources)
}

// dryRuns are requests that must have no effect. Their AdmissionReviews have dryRun; webhooks that would have one nevertheless cannot be
// configured any more.
var dryRuns = []step{
	post(widgets+"?dryRun=All", widget(labelled(`effects: "yes"`), "{}")),
	post(widgets+"?dryRun=All", widget(labelled(`deny: "yes"`), "{}")).refused(http.StatusTeapot, "no widgets today"),
	post(widgets+"?dryRun=All", widget(labelled(`again: "yes"`), "{}")),
}

// subresources are requests for one widget in all ways in which it changes.
var subresources = []step{
	post(widgets, widget(`{name: a, labels: {again: "yes", warn: "yes"}}`, "{replicas: 1}")), cached,
	patch(widgets+"/a", "{spec: {color: red}}"), cached,
	patch(widgets+"/a/status", "{status: {replicas: 1}}"), cached,
	apply(widgets+"/a", widget("{name: a}", "{color: green}")), cached,
	patch(widgets+"/a/scale", "{spec: {replicas: 2}}"), cached,
	get(widgets + "/a"),
	del(widgets + "/a"),
}

// cached waits until the watch cache has the last change of widget a, as a consistent list does (KEP-2340). An update
// starts with the object of the watch cache. While that is older than etcd's, the API server asks the webhooks for
// nothing and then once more (GuaranteedUpdate in k8s.io/apiserver/pkg/storage/cacher): how often depends on time.
var cached = get(widgets + "?fieldSelector=metadata.name=a")

func TestWebhooksForDefinitions(t *testing.T) {
	t.Parallel()
	const definition = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: %[1]s.hooked.example.com}, spec: {group: hooked.example.com,
  scope: Cluster, names: {plural: %[1]s, singular: thing, kind: Thing, listKind: ThingList}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}`
	const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	shared.run(t, "hooked",
		[]step{post(policies+"mutatingwebhookconfigurations", `{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: "{ns}"},
  webhooks: [{name: definitions.example.com, admissionReviewVersions: [v1], sideEffects: None, clientConfig: {url: "{hook}/label/by/webhook", caBundle: "{ca}"},
  matchConditions: [{name: mine, expression: "request.name.endsWith('.hooked.example.com')"}],
  rules: [{apiGroups: [apiextensions.k8s.io], apiVersions: [v1], operations: [CREATE], resources: [customresourcedefinitions]}]}]}`)},
		settle(post(path+"?dryRun=All", fmt.Sprintf(definition, "things")).containing(`"by":"webhook"`)),
		[]step{
			post(path, fmt.Sprintf(definition, "things")).containing(`"by":"webhook"`),
		})
}
