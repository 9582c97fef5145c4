// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"net/http"
	"testing"
)

// pluginConfiguration is an element of the list of plugins that has one read manifests (KEP 5793).
const pluginConfiguration = `- name: %s
  configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: %s, staticManifestsDir: %s}
`

// kindOfConfiguration is the kind of a plugin's configuration.
func kindOfConfiguration(plugin string) string {
	switch plugin {
	case "MutatingAdmissionWebhook", "ValidatingAdmissionWebhook":
		return "WebhookAdmissionConfiguration"
	}
	return plugin + "Configuration"
}

const manifestRules = `{apiGroups: ["", example.com], apiVersions: [v1], operations: [CREATE], resources: [widgets, configmaps]}`

// ofManifests selects APIServices, which are in no namespace.
const ofManifests = `objectSelector: {matchLabels: {team: manifests}}`

const serviceRules = `{apiGroups: [apiregistration.k8s.io], apiVersions: [v1], operations: [CREATE], resources: [apiservices]}`

// manifests are read by plugins when they start. They concern one namespace, and APIServices with a label.
var manifests = map[string]string{
	"ValidatingAdmissionPolicy": `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: labels.static.k8s.io}
spec:
  matchConstraints: {namespaceSelector: {matchLabels: {team: manifests}}, resourceRules: [` + manifestRules + `]}
  validations: [{message: not with this label, expression: "!('deny' in object.metadata.labels)"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: labels.static.k8s.io}
spec: {policyName: labels.static.k8s.io, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: services.static.k8s.io}
spec:
  matchConstraints: {` + ofManifests + `, resourceRules: [` + serviceRules + `]}
  validations: [{message: not with this label, expression: "!('deny' in object.metadata.labels)"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: services.static.k8s.io}
spec: {policyName: services.static.k8s.io, validationActions: [Deny]}
`,
	"MutatingAdmissionPolicy": `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: label.static.k8s.io}
spec:
  reinvocationPolicy: Never
  matchConstraints: {namespaceSelector: {matchLabels: {team: manifests}}, resourceRules: [` + manifestRules + `]}
  mutations:
  - {patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {'by-policy': 'manifest'}}}"}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: label.static.k8s.io}
spec: {policyName: label.static.k8s.io}
`,
	"MutatingAdmissionWebhook": `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: label.static.k8s.io}
webhooks:
- {name: label.example.com, admissionReviewVersions: [v1], sideEffects: None, clientConfig: {url: "{hook}/label/by-webhook/manifest", caBundle: "{ca}"},
   namespaceSelector: {matchLabels: {team: manifests}}, rules: [` + manifestRules + `]}
`,
	"ValidatingAdmissionWebhook": `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: deny.static.k8s.io}
webhooks:
- {name: deny.example.com, admissionReviewVersions: [v1], sideEffects: None, clientConfig: {url: "{hook}/deny", caBundle: "{ca}"},
   namespaceSelector: {matchLabels: {team: manifests}}, objectSelector: {matchLabels: {hook-deny: "yes"}}, rules: [` + manifestRules + `]}
- {name: services.example.com, admissionReviewVersions: [v1], sideEffects: None, clientConfig: {url: "{hook}/deny", caBundle: "{ca}"},
   objectSelector: {matchLabels: {team: manifests, hook-deny: "yes"}}, rules: [` + serviceRules + `]}
`,
}

func TestManifests(t *testing.T) {
	t.Parallel()
	var steps []step
	for path, manifest := range map[string]func(metadata string) string{
		widgets:                    func(metadata string) string { return widget(metadata, "{}") },
		inNamespace + "configmaps": func(metadata string) string { return configMap(metadata, "{}") },
	} {
		steps = append(steps, settle(post(path, manifest("{generateName: settle-}")).containing(`"by-policy":"manifest"`))...)
		steps = append(steps,
			post(path, manifest("{generateName: gen-}")).containing(`"by-policy":"manifest","by-webhook":"manifest"`),
			post(path, manifest(labelled(`deny: "yes"`))).refused(http.StatusUnprocessableEntity, "not with this label"),
			post(path, manifest(labelled(`hook-deny: "yes"`))).refused(http.StatusTeapot, "today"),
		)
	}
	steps = append(steps,
		post(apiServices, apiService("v1", `, labels: {team: manifests, deny: "yes"}`, 9)).refused(http.StatusUnprocessableEntity, "not with this label"),
		post(apiServices, apiService("v1", `, labels: {team: manifests, hook-deny: "yes"}`, 9)).refused(http.StatusTeapot, "no apiservices today"),
		post(apiServices, apiService("v1", `, labels: {team: manifests}`, 9)),
		del(apiServices+"/v1.{ns}.services.example.com"),
	)
	shared.run(t, "manifests", steps)
}
