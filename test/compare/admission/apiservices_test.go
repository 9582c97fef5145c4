// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"net/http"
	"testing"
)

const apiServices = "/apis/apiregistration.k8s.io/v1/apiservices"

// apiService is one in a group of the test that no server serves; metadata is more of that, and priority what it is preferred by.
func apiService(version, metadata string, priority int) string {
	return fmt.Sprintf(`{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: "%[1]s.{ns}.services.example.com"%[2]s},
  spec: {group: "{ns}.services.example.com", version: %[1]s, groupPriorityMinimum: 100, versionPriority: %[3]d, service: {namespace: "{ns}", name: nowhere}}}`, version, metadata, priority)
}

// ofAPIServices is what policies of a test match: those in its group.
const ofAPIServices = `matchConstraints: {resourceRules: [{apiGroups: [apiregistration.k8s.io], apiVersions: ["*"], operations: ["*"], resources: [apiservices]}]},
  matchConditions: [{name: mine, expression: "request.name.endsWith('.{ns}.services.example.com')"}]`

func TestAPIServicesPassPolicies(t *testing.T) {
	t.Parallel()
	const one = apiServices + "/v1.{ns}.services.example.com"
	shared.run(t, "registered",
		[]step{
			post(inNamespace+"configmaps", configMap("{name: settings}", `{most: "15"}`)),
			post(gadgets, `{apiVersion: example.com/v1, kind: Gadget, metadata: {name: "{ns}"}, spec: {allowed: [one, two]}}`),
		},
		cluster("registrar", "registrar", `[{apiGroups: [apiregistration.k8s.io], resources: [apiservices], verbs: [create]}]`),
		cluster("insider", "insider", `[{apiGroups: [apiregistration.k8s.io], resources: [apiservices], verbs: [create, feature]}]`),
		validating("by-config-map", `{paramKind: {apiVersion: v1, kind: ConfigMap}, `+ofAPIServices+`, validations: [{expression:
  "request.operation == 'DELETE' || object.spec.versionPriority <= int(params.data.most)", messageExpression: "'at most ' + params.data.most + (namespaceObject == null ? ' anywhere' : '')"}]}`,
			`paramRef: {name: settings, namespace: "{ns}", parameterNotFoundAction: Deny}, validationActions: [Deny]`),
		validating("by-gadget", `{paramKind: {apiVersion: example.com/v1, kind: Gadget}, `+ofAPIServices+`, validations: [{expression:
  "request.operation == 'DELETE' || !has(object.metadata.annotations) || !('for' in object.metadata.annotations) || object.metadata.annotations['for'] in params.spec.allowed",
  messageExpression: "'only for ' + params.spec.allowed.join(' and ')"}]}`,
			`paramRef: {name: "{ns}", parameterNotFoundAction: Deny}, validationActions: [Deny]`),
		validating("by-authorizer", `{`+ofAPIServices+`, validations: [{message: this is for insiders, expression:
  "request.operation == 'DELETE' || object.spec.versionPriority != 7 || authorizer.group('apiregistration.k8s.io').resource('apiservices').check('feature').allowed()"}]}`,
			"validationActions: [Deny]"),
		validating("deletion", `{`+ofAPIServices+`, validations: [{message: it is kept, expression: "request.operation != 'DELETE' || oldObject.spec.versionPriority != 9"}]}`,
			"validationActions: [Deny]"),
		validating("warned", `{`+ofAPIServices+`, validations: [{message: five is low, expression: "request.operation == 'DELETE' || object.spec.versionPriority != 5"}]}`,
			"validationActions: [Warn, Audit]"),
		mutating("label", `{reinvocationPolicy: Never, `+ofAPIServices+`, mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression:
  "Object{metadata: Object.metadata{labels: {'priority': string(object.spec.versionPriority)}}, spec: Object.spec{groupPriorityMinimum: 200}}"}}]}`, ""),
		settle(
			post(apiServices+"?dryRun=All", apiService("v1", "", 16)).refused(http.StatusUnprocessableEntity, "at most 15 anywhere"),
			post(apiServices+"?dryRun=All", apiService("v1", ", annotations: {for: three}", 8)).refused(http.StatusUnprocessableEntity, "only for one and two"),
			post(apiServices+"?dryRun=All", apiService("v1", "", 7)).as("registrar").refused(http.StatusUnprocessableEntity, "this is for insiders"),
			post(apiServices+"?dryRun=All", apiService("v1", "", 7)).as("insider").containing(`"priority":"7"`),
			post(apiServices+"?dryRun=All", apiService("v1", "", 5)).containing("five is low"),
		),
		[]step{
			post(apiServices, apiService("v1", ", annotations: {for: two}", 9)).containing(`"groupPriorityMinimum":200`),
			post(apiServices, apiService("v2", "", 16)).refused(http.StatusUnprocessableEntity, "at most 15 anywhere"),
			patch(one, "{spec: {versionPriority: 17}}").refused(http.StatusUnprocessableEntity, "at most 15 anywhere"),
			apply(one, apiService("v1", ", annotations: {for: three}", 9)).refused(http.StatusUnprocessableEntity, "only for one and two"),
			put("/apis/apiregistration.k8s.io/v1/apiservices/v2.{ns}.services.example.com", apiService("v2", "", 9)).refused(http.StatusNotFound, "not found"),
		},
		settle(del(one+"?dryRun=All").refused(http.StatusUnprocessableEntity, "it is kept")),
		[]step{
			del(one).refused(http.StatusUnprocessableEntity, "it is kept"),
			patch(one, "{spec: {versionPriority: 5}}").containing("five is low"),
			del(one),
		})
}

func TestAPIServicesPassWebhooks(t *testing.T) {
	t.Parallel()
	configuration := func(kind, webhooks string) step {
		path := map[string]string{"Mutating": "mutating", "Validating": "validating"}[kind] + "webhookconfigurations"
		return post(policies+path, `{apiVersion: admissionregistration.k8s.io/v1, kind: `+kind+`WebhookConfiguration, metadata: {name: "{ns}"}, webhooks: [`+webhooks+`]}`)
	}
	webhook := func(name, path, more string) string {
		return `{name: ` + name + `.example.com, admissionReviewVersions: [v1], sideEffects: None, clientConfig: {url: "{hook}/` + path + `", caBundle: "{ca}"}, ` + more + `,
  matchConditions: [{name: mine, expression: "request.name.endsWith('.{ns}.services.example.com')"}],
  rules: [{apiGroups: [apiregistration.k8s.io], apiVersions: [v1], operations: ["*"], resources: [apiservices]}]}`
	}
	const one = apiServices + "/v1.{ns}.services.example.com"
	shared.run(t, "announced",
		[]step{
			post(inNamespace+"services", "{apiVersion: v1, kind: Service, metadata: {name: hook}, spec: {type: ExternalName, externalName: localhost}}"),
			configuration("Mutating", webhook("label", "label/by/webhook", "failurePolicy: Fail")),
			configuration("Validating", webhook("deny", "deny", only("deny"))+", "+webhook("broken", "broken", only("broken"))+", "+webhook("warn", "warn", only("warn"))),
		},
		settle(
			post(apiServices+"?dryRun=All", apiService("v1", "", 9)).containing(`"by":"webhook"`),
			post(apiServices+"?dryRun=All", apiService("v1", `, labels: {deny: "yes"}`, 9)).refused(http.StatusTeapot, "no apiservices today"),
		),
		[]step{
			post(apiServices, apiService("v1", `, labels: {warn: "yes"}`, 9)).containing("mind the apiservices"),
			post(apiServices, apiService("v2", `, labels: {broken: "yes"}`, 9)).refused(http.StatusInternalServerError, "out of order"),
			patch(one, `{metadata: {labels: {deny: "yes"}}}`).refused(http.StatusTeapot, "no apiservices today"),
			patch(one, "{spec: {versionPriority: 5}}").containing(`"by":"webhook"`),
			del(one),
		})
}

func TestOwnersOfAPIServicesNeedPermission(t *testing.T) {
	t.Parallel()
	ownedBy := func(apiVersion, kind string) string {
		return apiService("v1", fmt.Sprintf(", ownerReferences: [{apiVersion: %s, kind: %s, name: owner, uid: 6c8f1c8a-7a0a-4c1e-9f6a-2d2f1f0f3a11, blockOwnerDeletion: true}]", apiVersion, kind), 9)
	}
	shared.run(t, "possessed",
		cluster("announcer", "announcer", `[{apiGroups: [apiregistration.k8s.io], resources: [apiservices], verbs: [create]}]`),
		settle(
			post(apiServices+"?dryRun=All", apiService("v1", "", 9)).as("announcer"),
			post(apiServices+"?dryRun=All", ownedBy("example.com/v1", "Gadget")).as("announcer").refused(http.StatusForbidden, "can't set finalizers on"),
		),
		[]step{
			post(apiServices, ownedBy("example.com/v1", "Gadget")).as("announcer").refused(http.StatusForbidden, "can't set finalizers on"),
			post(apiServices, ownedBy("v1", "Namespace")).as("announcer").refused(http.StatusForbidden, "can't set finalizers on"),
			post(apiServices, ownedBy("nobody.example.com/v1", "Thing")).as("announcer").refused(http.StatusForbidden, "cannot find RESTMapping"),
			post(apiServices, ownedBy("v1", "Namespace")),
			del(apiServices + "/v1.{ns}.services.example.com"),
		})
}
