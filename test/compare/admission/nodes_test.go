// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

const nodeOne, nodeTwo = nodePrefix + "one", nodePrefix + "two"

// pod is one on that node, with a Secret and a ConfigMap that no other mounts.
func pod(node string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: on-%[1]s}, spec: {nodeName: %[1]s, serviceAccountName: used, containers: [{name: main, image: none}], volumes: [
  {name: secret, secret: {secretName: of-%[1]s}}, {name: settings, configMap: {name: of-%[1]s}}]}}`, node)
}

// podsOnNodes makes a pod on each of two nodes, one and two. The nodes themselves are not needed.
func podsOnNodes() []step {
	return []step{
		post(inNamespace+"serviceaccounts", "{apiVersion: v1, kind: ServiceAccount, metadata: {name: used}, automountServiceAccountToken: false}"),
		post(inNamespace+"pods", pod("one")),
		post(inNamespace+"pods", pod("two")),
	}
}

// asking is a widget that has policies ask whether its sender may do something.
func asking(verb, group, resource, subresource, name string) string {
	return anyWidget(fmt.Sprintf("{allowed: [%s]}", `"`+strings.Join([]string{verb, group, resource, subresource, name}, `", "`)+`"`))
}

func askingForSecret(name string) string { return asking("get", "", "secrets", "", name) }

// theAnswer is the variable of policies with what widgets ask for.
const theAnswer = `variables: [{name: answer, expression: "authorizer.group(object.spec.allowed[1]).resource(object.spec.allowed[2]).subresource(object.spec.allowed[3])
  .namespace(namespaceObject.metadata.name).name(object.spec.allowed[4]).check(object.spec.allowed[0])"}]`

// refusing makes a policy that only lets widgets without a color in if the answer is yes.
func refusing() []step {
	return validating("refusing", `{matchConstraints: {`+onWidgets+`}, matchConditions: [{name: uncolored, expression: "!has(object.spec.color)"}], `+theAnswer+`,
  validations: [{message: no pod of the node needs it, expression: "variables.answer.allowed()"}]}`, "validationActions: [Deny]")
}

func refused(widget string) step {
	return post(widgets, widget).refused(http.StatusUnprocessableEntity, "no pod of the node needs it")
}

// telling makes a policy that writes the answer into widgets with a color.
func telling() []step {
	return mutating("telling", `{reinvocationPolicy: Never, matchConstraints: {`+onWidgets+`}, matchConditions: [{name: colored, expression: "has(object.spec.color)"}], `+theAnswer+`,
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: Object.metadata{annotations: {
    'allowed': string(variables.answer.allowed()), 'reason': variables.answer.reason(), 'errored': string(variables.answer.errored())}}}"}}]}`, "")
}

func shown(widget string) step {
	return post(widgets, strings.Replace(widget, "{allowed:", "{color: any, allowed:", 1)).containing(`"errored":"false"`)
}

// What the Node authorizer knows of the pods of a node, policies for custom resources know.
func TestPoliciesKnowWhatThePodsOfANodeNeed(t *testing.T) {
	t.Parallel()
	shared.run(t, "nodes",
		allow(nodeOne, "one", `[{apiGroups: [example.com], resources: [widgets], verbs: [create]}]`),
		allow(nodeTwo, "two", `[{apiGroups: [example.com], resources: [widgets], verbs: [create]}, {apiGroups: [""], resources: [secrets], resourceNames: [by-role], verbs: [get]}]`),
		allow("no-node", "no-node", `[{apiGroups: [example.com], resources: [widgets], verbs: [create]}]`),
		podsOnNodes(),
		refusing(),
		telling(),
		settle(
			refused(askingForSecret("of-nobody")).as(nodeOne),
			post(widgets, askingForSecret("of-one")).as(nodeOne),
			post(widgets, askingForSecret("of-two")).as(nodeTwo),
			shown(askingForSecret("of-one")).as(nodeOne).containing(`"allowed":"true"`),
		),
		[]step{
			post(widgets, askingForSecret("of-one")).as(nodeOne),
			refused(askingForSecret("of-one")).as(nodeTwo),
			refused(askingForSecret("of-one")).as("no-node"),
			post(widgets, askingForSecret("of-one")),
			refused(askingForSecret("of-two")).as(nodeOne),
			post(widgets, askingForSecret("by-role")).as(nodeTwo),
			refused(askingForSecret("by-role")).as(nodeOne),
			refused(asking("update", "", "secrets", "", "of-one")).as(nodeOne),
			refused(asking("get", "", "secrets", "status", "of-one")).as(nodeOne),
			refused(asking("*", "", "secrets", "", "of-one")).as(nodeOne),
			post(widgets, asking("watch", "", "configmaps", "", "of-one")).as(nodeOne),
			refused(asking("get", "", "configmaps", "", "of-two")).as(nodeOne),
			post(widgets, asking("get", "", "pods", "", "on-one")).as(nodeOne),
			refused(asking("get", "", "pods", "", "on-two")).as(nodeOne),
			post(widgets, asking("create", "", "serviceaccounts", "token", "used")).as(nodeOne),
			refused(asking("create", "", "serviceaccounts", "token", "default")).as(nodeOne),
			refused(asking("get", "", "persistentvolumeclaims", "", "unknown")).as(nodeOne),
			post(widgets, asking("list", "", "services", "", "")).as(nodeOne),
			refused(asking("get", "example.com", "widgets", "", "unknown")).as(nodeOne),
			shown(askingForSecret("of-two")).as(nodeOne).containing("no relationship found"),
			shown(asking("list", "", "configmaps", "", "")).as(nodeOne),
			shown(askingForSecret("of-one")).as("no-node"),
			shown(askingForSecret("by-role")).as(nodeTwo),
			del(inNamespace + "pods/on-one?gracePeriodSeconds=0"),
		},
		settle(refused(askingForSecret("of-one")).as(nodeOne)))
}

func TestPoliciesForAPIServicesKnowWhatThePodsOfANodeNeed(t *testing.T) {
	t.Parallel()
	asking := func(secret string) string { return apiService("v1", ", annotations: {secret: "+secret+"}", 9) }
	denied := func(secret string) step {
		return post(apiServices+"?dryRun=All", asking(secret)).refused(http.StatusUnprocessableEntity, "no pod of the node mounts it")
	}
	shared.run(t, "announcing",
		cluster(nodeOne, "announcer", `[{apiGroups: [apiregistration.k8s.io], resources: [apiservices], verbs: [create]}]`),
		podsOnNodes(),
		validating("by-pods", `{`+ofAPIServices+`, validations: [{message: no pod of the node mounts it, expression:
  "request.operation == 'DELETE' || authorizer.group('').resource('secrets').namespace('{ns}').name(object.metadata.annotations.secret).check('get').allowed()"}]}`,
			"validationActions: [Deny]"),
		settle(
			denied("of-nobody").as(nodeOne),
			post(apiServices+"?dryRun=All", asking("of-one")).as(nodeOne),
		),
		[]step{
			denied("of-two").as(nodeOne),
			post(apiServices, asking("of-one")).as(nodeOne),
			del(apiServices + "/v1.{ns}.services.example.com"),
		})
}
