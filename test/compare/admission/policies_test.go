// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"net/http"
	"testing"
)

// onWidgets is what policies of a test match.
const onWidgets = `namespaceSelector: {matchLabels: {team: "{ns}"}}, resourceRules: [{apiGroups: [example.com], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: [widgets]}]`

// validating makes a ValidatingAdmissionPolicy and its binding.
func validating(name, spec, binding string) []step {
	return policy("Validating", name, spec, binding)
}

// mutating makes a MutatingAdmissionPolicy and its binding.
func mutating(name, spec, binding string) []step { return policy("Mutating", name, spec, binding) }

func policy(kind, name, spec, binding string) []step {
	resource := map[string]string{"Validating": "validatingadmissionpolicies", "Mutating": "mutatingadmissionpolicies"}[kind]
	manifest := func(suffix, spec string) string {
		return fmt.Sprintf("apiVersion: admissionregistration.k8s.io/v1\nkind: %sAdmissionPolicy%s\nmetadata: {name: %q}\nspec: %s", kind, suffix, name+".{ns}", spec)
	}
	return []step{
		post(policies+resource, manifest("", spec)),
		post(policies+resource[:len(resource)-3]+"ybindings", manifest("Binding", fmt.Sprintf(`{policyName: "%s.{ns}", %s}`, name, binding))),
	}
}

func TestPoliciesWithConfigMaps(t *testing.T) {
	t.Parallel()
	shared.run(t, "policies",
		allow("policies-writer", "writer", `[{apiGroups: [example.com], resources: [widgets], verbs: [create]}]`),
		allow("painter", "painter", `[{apiGroups: [example.com], resources: [widgets], verbs: [create, paint]}]`),
		validating("colors", `{failurePolicy: Fail, paramKind: {apiVersion: v1, kind: ConfigMap}, matchConstraints: {`+onWidgets+`},
  matchConditions: [{name: not-exempt, expression: "!has(object.metadata.labels) || !('exempt' in object.metadata.labels)"}],
  variables: [{name: color, expression: "has(object.spec.color) ? object.spec.color : 'none'"}],
  validations: [{expression: "variables.color != params.data.forbidden", reason: Forbidden,
    messageExpression: "'the color ' + variables.color + ' is forbidden in ' + namespaceObject.metadata.labels.team"}]}`,
			"paramRef: {name: settings, parameterNotFoundAction: Deny}, validationActions: [Deny]"),
		validating("gold", `{matchConstraints: {`+onWidgets+`}, validations: [{message: only painters have gold, expression:
  "!has(object.spec.color) || object.spec.color != 'gold' || authorizer.group('example.com').resource('widgets').namespace(namespaceObject.metadata.name).check('paint').allowed()"}]}`,
			"validationActions: [Deny]"),
		validating("grey", `{matchConstraints: {`+onWidgets+`}, validations: [{message: grey is dull, expression: "!has(object.spec.color) || object.spec.color != 'grey'"}]}`,
			"validationActions: [Warn, Audit]"),
		validating("deletion", `{matchConstraints: {namespaceSelector: {matchLabels: {team: "{ns}"}}, resourceRules: [
  {apiGroups: [example.com], apiVersions: [v1], operations: [DELETE], resources: [widgets]}]},
  validations: [{message: it is kept, expression: "!has(oldObject.spec.color) || oldObject.spec.color != 'kept'"}]}`,
			"validationActions: [Deny]"),
		settle(post(widgets, probe("{}")).refused(http.StatusUnprocessableEntity, "no params found")),
		[]step{
			post(widgets, anyWidget("{color: red}")).refused(http.StatusUnprocessableEntity, "no params found"),
			post(inNamespace+"configmaps", configMap("{name: settings}", "{forbidden: red}")),
		},
		settle(
			post(widgets, probe("{color: red}")).refused(http.StatusForbidden, "the color red is forbidden in policies"),
			post(widgets, probe("{color: gold}")).as("policies-writer").refused(http.StatusUnprocessableEntity, "only painters"),
			post(widgets, probe("{color: gold}")).as("painter"),
			post(widgets, probe("{color: grey}")).containing("grey is dull"),
		),
		[]step{
			post(widgets, anyWidget("{color: red}")).refused(http.StatusForbidden, "the color red is forbidden in policies"),
			post(widgets+"?dryRun=All", anyWidget("{color: red}")).refused(http.StatusForbidden, "the color red"),
			post(widgets, widget("{generateName: gen-, labels: {exempt: yes-please}}", "{color: red}")),
			post(widgets, anyWidget("{color: gold}")).as("policies-writer").refused(http.StatusUnprocessableEntity, "only painters"),
			post(widgets, anyWidget("{color: gold}")).as("painter"),
			post(widgets, anyWidget("{color: grey}")).containing("grey is dull"),
			post(widgets, widget("{name: a}", "{color: kept}")),
			patch(widgets+"/a", "{spec: {color: red}}").refused(http.StatusForbidden, "the color red"),
			patch(widgets+"/a/status", "{status: {replicas: 1}}"),
		},
		settle(del(widgets+"/a?dryRun=All").refused(http.StatusUnprocessableEntity, "it is kept")),
		[]step{
			del(widgets+"/a").refused(http.StatusUnprocessableEntity, "it is kept"),
			del(widgets).refused(http.StatusUnprocessableEntity, "it is kept"),
			patch(inNamespace+"configmaps/settings", "{data: {forbidden: blue}}"),
		},
		settle(post(widgets, probe("{color: blue}")).refused(http.StatusForbidden, "the color blue")),
		[]step{post(widgets, anyWidget("{color: red}"))})
}

func TestPoliciesWithCustomResources(t *testing.T) {
	t.Parallel()
	const isAllowed = `validations: [{messageExpression: "params.metadata.name + ' does not allow it'", expression: "!has(object.spec.color) || object.spec.color in params.spec.allowed"}]`
	shared.run(t, "parameters",
		[]step{
			post(gadgets, `{apiVersion: example.com/v1, kind: Gadget, metadata: {name: "{ns}"}, spec: {allowed: [red, green]}}`),
			post(widgets, widget("{name: first, labels: {role: parameter}}", "{allowed: [red, green, blue]}")),
			post(widgets, widget("{name: second, labels: {role: parameter}}", "{allowed: [red, blue]}")),
		},
		validating("by-gadget", `{paramKind: {apiVersion: example.com/v1, kind: Gadget}, matchConstraints: {`+onWidgets+`}, `+isAllowed+`}`,
			`paramRef: {name: "{ns}", parameterNotFoundAction: Deny}, validationActions: [Deny]`),
		validating("by-widgets", `{paramKind: {apiVersion: example.com/v1, kind: Widget}, matchConstraints: {`+onWidgets+`}, `+isAllowed+`}`,
			`paramRef: {selector: {matchLabels: {role: parameter}}, parameterNotFoundAction: Deny}, validationActions: [Deny]`),
		validating("of-builtin", `{paramKind: {apiVersion: example.com/v1, kind: Gadget}, validations: [{message: not so, expression: "!has(object.data) || object.data.color in params.spec.allowed"}],
  matchConstraints: {namespaceSelector: {matchLabels: {team: "{ns}"}}, resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}}`,
			`paramRef: {name: "{ns}", parameterNotFoundAction: Deny}, validationActions: [Deny]`),
		settle(
			post(widgets, probe("{color: blue}")).refused(http.StatusUnprocessableEntity, "parameters does not allow it"),
			post(widgets, probe("{color: green}")).refused(http.StatusUnprocessableEntity, "second does not allow it"),
			post(inNamespace+"configmaps", configMap("{generateName: settle-}", "{color: blue}")).refused(http.StatusUnprocessableEntity, "not so"),
		),
		[]step{
			post(widgets, anyWidget("{color: red}")),
			post(widgets, anyWidget("{color: green}")).refused(http.StatusUnprocessableEntity, "second does not allow it"),
			post(widgets, anyWidget("{color: blue}")).refused(http.StatusUnprocessableEntity, "parameters does not allow it"),
			post(inNamespace+"configmaps", configMap("{name: a}", "{color: red}")),
			patch(gadgets+"/{ns}", "{spec: {allowed: [blue, green]}}"),
		},
		settle(post(widgets, probe("{color: blue}"))),
		[]step{post(widgets, anyWidget("{color: red}")).refused(http.StatusUnprocessableEntity, "parameters does not allow it")})
}

// A service reads the kinds that policies name, and only these.
// (CEL sees the data of a Secret in base64.)
func TestPoliciesWithOtherBuiltinKinds(t *testing.T) {
	t.Parallel()
	shared.run(t, "builtin",
		[]step{
			post(inNamespace+"secrets", "{apiVersion: v1, kind: Secret, metadata: {name: settings}, stringData: {forbidden: red}}"),
			post("/apis/scheduling.k8s.io/v1/priorityclasses", `{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: "{ns}"}, value: 7}`),
		},
		validating("by-secret", `{paramKind: {apiVersion: v1, kind: Secret}, matchConstraints: {`+onWidgets+`}, validations: [{expression:
  "!has(object.spec.color) || object.spec.color != params.data.forbidden", message: that is secret}]}`,
			"paramRef: {name: settings, parameterNotFoundAction: Deny}, validationActions: [Deny]"),
		mutating("by-priority-class", `{paramKind: {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass}, reinvocationPolicy: Never, matchConstraints: {`+onWidgets+`},
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{spec: Object.spec{replicas: params.value}}"}}]}`,
			`paramRef: {name: "{ns}", parameterNotFoundAction: Deny}`),
		settle(
			post(widgets, probe("{color: cmVk}")).refused(http.StatusUnprocessableEntity, "that is secret"),
			post(widgets, probe("{color: Ymx1ZQ==}")).containing(`"replicas":7`),
		),
		[]step{
			post(widgets, anyWidget("{color: cmVk}")).refused(http.StatusUnprocessableEntity, "that is secret"),
			post(widgets, anyWidget("{color: Ymx1ZQ==}")).containing(`"replicas":7`),
			patch(inNamespace+"secrets/settings", "{stringData: {forbidden: blue}}"),
		},
		settle(post(widgets, probe("{color: Ymx1ZQ==}")).refused(http.StatusUnprocessableEntity, "that is secret")),
		[]step{post(widgets, anyWidget("{color: cmVk}")).containing(`"replicas":7`)})
}

func TestPoliciesMutate(t *testing.T) {
	t.Parallel()
	const mayBeAgain = "failurePolicy: Fail, reinvocationPolicy: IfNeeded, matchConstraints: {" + onWidgets + "}"
	shared.run(t, "mutation",
		[]step{
			post(inNamespace+"configmaps", configMap("{name: settings}", "{color: red}")),
			post(gadgets, `{apiVersion: example.com/v1, kind: Gadget, metadata: {name: "{ns}"}, spec: {allowed: [one, two]}}`),
		},
		mutating("a-shade", `{`+mayBeAgain+`, mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression:
  "Object{metadata: Object.metadata{labels: {'shade': has(object.spec.color) ? 'light-' + object.spec.color : 'none'}}}"}}]}`, ""),
		mutating("b-color", `{paramKind: {apiVersion: v1, kind: ConfigMap}, `+mayBeAgain+`, mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression:
  "Object{spec: Object.spec{color: params.data.color}}"}}]}`, `paramRef: {name: settings, parameterNotFoundAction: Deny}`),
		mutating("c-allowed", `{paramKind: {apiVersion: example.com/v1, kind: Gadget}, reinvocationPolicy: Never, matchConstraints: {`+onWidgets+`}, mutations: [{patchType: JSONPatch, jsonPatch: {expression:
  "[JSONPatch{op: 'add', path: '/spec/allowed', value: params.spec.allowed}, JSONPatch{op: 'add', path: '/metadata/annotations', value: {'team': namespaceObject.metadata.labels.team}}]"}}]}`,
			`paramRef: {name: "{ns}", parameterNotFoundAction: Deny}`),
		// One request shows what all three do: with one for each, a side could show the work of a policy that the other has not read yet.
		settle(post(widgets, probe("{replicas: 1}")).containing(`"shade":"light-red"`, `"allowed":["one","two"]`, `"team":"mutation"`)),
		[]step{
			post(widgets, widget("{name: a}", "{replicas: 1}")).containing(`"shade":"light-red"`),
			apply(widgets+"/a", widget("{name: a}", "{replicas: 2, color: green}")).containing(`"color":"red"`),
			patch(widgets+"/a/scale", "{spec: {replicas: 3}}"),
			get(widgets + "/a"),
			post(widgets+"?dryRun=All", anyWidget("{replicas: 1}")).containing(`"shade":"light-red"`),
		})
}

// A definition is an object that is admitted, too.
func TestPoliciesForDefinitions(t *testing.T) {
	t.Parallel()
	const definition = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: %[1]s.definitions.example.com}, spec: {group: definitions.example.com,
  scope: Cluster, names: {plural: %[1]s, singular: %[2]s, kind: Thing, listKind: ThingList}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}`
	const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	shared.run(t, "definitions",
		validating("scope", `{matchConstraints: {resourceRules: [{apiGroups: [apiextensions.k8s.io], apiVersions: [v1], operations: [CREATE], resources: [customresourcedefinitions]}]},
  matchConditions: [{name: mine, expression: "object.spec.group == 'definitions.example.com'"}],
  validations: [{message: not without a name, expression: "object.spec.names.singular != 'x'"}]}`, "validationActions: [Deny]"),
		settle(post(path+"?dryRun=All", fmt.Sprintf(definition, "xs", "x")).refused(http.StatusUnprocessableEntity, "not without a name")),
		[]step{
			post(path, fmt.Sprintf(definition, "xs", "x")).refused(http.StatusUnprocessableEntity, "not without a name"),
			post(path+"?dryRun=All", fmt.Sprintf(definition, "things", "thing")),
		})
}
