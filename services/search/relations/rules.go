// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package relations

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
	"github.com/tripod-k8s/tripod/services/search/query"
)

// rule is a field of a resource that has the names of other objects.
type rule struct {
	relation v1beta1.RelationType
	// at is where references are, and name the field of a reference with the name. If name is empty, a reference is the name itself.
	at, name string
	// to is the resource of the other object. It is empty if the reference has its kind.
	to schema.GroupResource
	// kinds are those that a reference may have, or nil for all. A reference without a group or kind means the first one. group is the
	// field with the group or the apiVersion.
	kinds []schema.GroupKind
	group string
	// elsewhere is set if a reference may have a namespace.
	elsewhere bool

	// path is that of at, and namePath leads to the name.
	path, namePath []query.Step
}

// field is where the name is, for answers.
func (r *rule) field() string {
	if r.name == "" {
		return r.at
	}
	return r.at + "." + r.name
}

func core(resource string) schema.GroupResource { return schema.GroupResource{Resource: resource} }

// API groups that no package of search names.
const (
	gatewayGroup = "gateway.networking.k8s.io"
	rbacGroup    = "rbac.authorization.k8s.io"
)

var (
	configMaps, secrets, services = core("configmaps"), core("secrets"), core("services")
	claims, volumes, pods         = core("persistentvolumeclaims"), core("persistentvolumes"), core("pods")
	storageClasses                = schema.GroupResource{Group: "storage.k8s.io", Resource: "storageclasses"}
	ingresses                     = schema.GroupResource{Group: "networking.k8s.io", Resource: "ingresses"}
	endpointSlices                = schema.GroupResource{Group: "discovery.k8s.io", Resource: "endpointslices"}
	gateways                      = schema.GroupResource{Group: gatewayGroup, Resource: "gateways"}

	serviceKinds = []schema.GroupKind{{Kind: "Service"}}
	gatewayKinds = []schema.GroupKind{{Group: gatewayGroup, Kind: "Gateway"}}
	roleKinds    = []schema.GroupKind{{Group: rbacGroup, Kind: "ClusterRole"}, {Group: rbacGroup, Kind: "Role"}}
)

// templates says where the spec of pods is in resources that have one.
var templates = map[schema.GroupResource]string{
	pods:                                    "spec",
	core("podtemplates"):                    "template.spec",
	core("replicationcontrollers"):          "spec.template.spec",
	{Group: "apps", Resource: "daemonsets"}: "spec.template.spec", {Group: "apps", Resource: "deployments"}: "spec.template.spec",
	{Group: "apps", Resource: "replicasets"}: "spec.template.spec", {Group: "apps", Resource: "statefulsets"}: "spec.template.spec",
	{Group: "batch", Resource: "jobs"}: "spec.template.spec", {Group: "batch", Resource: "cronjobs"}: "spec.jobTemplate.spec.template.spec",
}

// rules are those of each resource.
var rules = parsed(map[schema.GroupResource][]rule{
	core("serviceaccounts"): {{relation: v1beta1.RelationImagePullSecret, at: "imagePullSecrets[]", name: "name", to: secrets}},
	claims: {
		{relation: v1beta1.RelationVolumeBinding, at: "spec.volumeName", to: volumes},
		{relation: v1beta1.RelationStorageClass, at: "spec.storageClassName", to: storageClasses},
	},
	volumes: {
		{relation: v1beta1.RelationVolumeBinding, at: "spec.claimRef", name: "name", to: claims, elsewhere: true},
		{relation: v1beta1.RelationStorageClass, at: "spec.storageClassName", to: storageClasses},
	},
	ingresses: {
		{relation: v1beta1.RelationBackend, at: "spec.defaultBackend.service", name: "name", to: services},
		{relation: v1beta1.RelationBackend, at: "spec.rules[].http.paths[].backend.service", name: "name", to: services},
		{relation: v1beta1.RelationTLSSecret, at: "spec.tls[]", name: "secretName", to: secrets},
		{
			relation: v1beta1.RelationIngressClass, at: "spec.ingressClassName",
			to: schema.GroupResource{Group: ingresses.Group, Resource: "ingressclasses"},
		},
	},
	endpointSlices: {
		{relation: v1beta1.RelationService, at: "metadata.labels['kubernetes.io/service-name']", to: services},
		{relation: v1beta1.RelationBackend, at: "endpoints[].targetRef", name: "name", kinds: []schema.GroupKind{{Kind: "Pod"}}},
	},
	gateways: {
		{
			relation: v1beta1.RelationGatewayClass, at: "spec.gatewayClassName",
			to: schema.GroupResource{Group: gatewayGroup, Resource: "gatewayclasses"},
		},
		{
			relation: v1beta1.RelationTLSSecret, at: "spec.listeners[].tls.certificateRefs[]", name: "name", group: "group",
			kinds: []schema.GroupKind{{Kind: "Secret"}}, elsewhere: true,
		},
	},
	{Group: gatewayGroup, Resource: "httproutes"}: ofRoute(),
	{Group: gatewayGroup, Resource: "grpcroutes"}: ofRoute(),
	{Group: gatewayGroup, Resource: "tlsroutes"}:  ofRoute(),
	{Group: "autoscaling", Resource: "horizontalpodautoscalers"}: {
		{relation: v1beta1.RelationScaleTarget, at: "spec.scaleTargetRef", name: "name", group: "apiVersion"},
	},
	{Group: rbacGroup, Resource: "rolebindings"}:                                         ofBinding(),
	{Group: rbacGroup, Resource: "clusterrolebindings"}:                                  ofBinding(),
	{Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"}: {webhook("webhooks[].clientConfig.service")},
	{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"}:   {webhook("webhooks[].clientConfig.service")},
	{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}: {
		webhook("spec.conversion.webhook.clientConfig.service"),
	},
	{Group: "apiregistration.k8s.io", Resource: "apiservices"}: {webhook("spec.service")},
})

// webhook is a reference to a Service that the API server calls.
func webhook(at string) rule {
	return rule{relation: v1beta1.RelationService, at: at, name: "name", to: services, elsewhere: true}
}

func ofRoute() []rule {
	return []rule{
		{
			relation: v1beta1.RelationGateway, at: "spec.parentRefs[]", name: "name", group: "group", kinds: gatewayKinds, elsewhere: true,
		},
		{
			relation: v1beta1.RelationBackend, at: "spec.rules[].backendRefs[]", name: "name", group: "group", kinds: serviceKinds,
			elsewhere: true,
		},
	}
}

func ofBinding() []rule {
	return []rule{
		{relation: v1beta1.RelationRoleRef, at: "roleRef", name: "name", group: "apiGroup", kinds: roleKinds},
		{
			relation: v1beta1.RelationSubject, at: "subjects[]", name: "name", group: "apiGroup",
			kinds: []schema.GroupKind{{Kind: "ServiceAccount"}}, elsewhere: true,
		},
	}
}

// ofPods are the rules of something with a spec of pods.
func ofPods(spec string) []rule {
	all := []rule{
		{relation: v1beta1.RelationVolume, at: "volumes[].configMap", name: "name", to: configMaps},
		{relation: v1beta1.RelationVolume, at: "volumes[].secret", name: "secretName", to: secrets},
		{relation: v1beta1.RelationVolume, at: "volumes[].persistentVolumeClaim", name: "claimName", to: claims},
		{relation: v1beta1.RelationVolume, at: "volumes[].projected.sources[].configMap", name: "name", to: configMaps},
		{relation: v1beta1.RelationVolume, at: "volumes[].projected.sources[].secret", name: "name", to: secrets},
		{relation: v1beta1.RelationImagePullSecret, at: "imagePullSecrets[]", name: "name", to: secrets},
		{relation: v1beta1.RelationServiceAccount, at: "serviceAccountName", to: core("serviceaccounts")},
		{relation: v1beta1.RelationNode, at: "nodeName", to: core("nodes")},
		{
			relation: v1beta1.RelationPriorityClass, at: "priorityClassName",
			to: schema.GroupResource{Group: "scheduling.k8s.io", Resource: "priorityclasses"},
		},
	}
	for _, containers := range []string{"containers[].", "initContainers[].", "ephemeralContainers[]."} {
		for _, variables := range []struct {
			at string
			to schema.GroupResource
		}{
			{"env[].valueFrom.configMapKeyRef", configMaps}, {"env[].valueFrom.secretKeyRef", secrets},
			{"envFrom[].configMapRef", configMaps}, {"envFrom[].secretRef", secrets},
		} {
			all = append(all, rule{relation: v1beta1.RelationEnvironment, at: containers + variables.at, name: "name", to: variables.to})
		}
	}
	for i := range all {
		all[i].at = spec + "." + all[i].at
	}
	return all
}

// parsed adds the rules of pods, and parses all paths.
func parsed(rules map[schema.GroupResource][]rule) map[schema.GroupResource][]rule {
	for resource, spec := range templates {
		rules[resource] = append(rules[resource], ofPods(spec)...)
	}
	stateful := schema.GroupResource{Group: "apps", Resource: "statefulsets"}
	rules[stateful] = append(rules[stateful], rule{relation: v1beta1.RelationService, at: "spec.serviceName", to: services})
	for _, all := range rules {
		for i := range all {
			all[i].path, all[i].namePath = query.MustPath(all[i].at), query.MustPath(all[i].field())
		}
	}
	return rules
}

// mayMean reports whether a reference may be to an object of a kind.
func (r *rule) mayMean(resource schema.GroupResource, kind schema.GroupKind) bool {
	if r.to.Resource != "" {
		return r.to == resource
	}
	return len(r.kinds) == 0 || slices.Contains(r.kinds, kind)
}
