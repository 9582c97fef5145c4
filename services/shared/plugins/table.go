// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package plugins

import "slices"

// What a plugin decides about if it does not look at the kind of an object. All others decide about built-in kinds.
const (
	anything     = ""
	inNamespaces = "objects in namespaces"
)

const (
	pods   = "pods"
	claims = "PersistentVolumeClaims"
)

// all lists the plugins of kube-apiserver in its order (k8s.io/kubernetes/pkg/kubeapiserver/options/plugins.go).
var all = withOlder([]Plugin{
	{"AlwaysAdmit", off, anything},
	{"NamespaceAutoProvision", off, inNamespaces},
	{"NamespaceLifecycle", on, inNamespaces},
	{"NamespaceExists", off, inNamespaces},
	{"LimitPodHardAntiAffinityTopology", off, pods},
	{"LimitRanger", on, pods + " and " + claims},
	{"ServiceAccount", on, pods},
	{"NodeRestriction", off, "what kubelets write: nodes, pods, Leases, CSINodes, ResourceSlices, tokens and certificates"},
	{"TaintNodesByCondition", on, "nodes"},
	{"AlwaysPullImages", off, pods},
	{"ImagePolicyWebhook", off, pods},
	{"PodSecurity", on, "pods, what makes pods, and namespaces"},
	{"PodNodeSelector", off, pods},
	{"Priority", on, "pods, pod groups and PriorityClasses"},
	{"DefaultTolerationSeconds", on, pods},
	{"PodTolerationRestriction", off, pods},
	{"EventRateLimit", off, "Events"},
	{"ExtendedResourceToleration", off, pods},
	{"DefaultStorageClass", on, claims},
	{"StorageObjectInUseProtection", on, "PersistentVolumes and " + claims},
	{"PodGroupProtection", on, "pod groups"},
	{"OwnerReferencesPermissionEnforcement", off, anything},
	{"PersistentVolumeClaimResize", on, claims},
	{"RuntimeClass", on, pods},
	{"CertificateApproval", on, "CertificateSigningRequests"},
	{"CertificateSigning", on, "CertificateSigningRequests"},
	{"ClusterTrustBundleAttest", on, "ClusterTrustBundles"},
	{"CertificateSubjectRestriction", on, "CertificateSigningRequests"},
	{"DefaultIngressClass", on, "Ingresses"},
	{"DenyServiceExternalIPs", off, "Services"},
	{"PodTopologyLabels", on, pods},
	{"NodeDeclaredFeatureValidator", on, pods},
	{"PodResizeValidator", on, pods},
	{"MutatingAdmissionPolicy", on, anything},
	{"MutatingAdmissionWebhook", on, anything},
	{"ValidatingAdmissionPolicy", on, anything},
	{"ValidatingAdmissionWebhook", on, anything},
	{"ResourceQuota", on, inNamespaces},
	{"AlwaysDeny", off, anything},
})

// withOlder adds the plugins that only an older version of Kubernetes has, each after the one that older names.
func withOlder(plugins []Plugin) []Plugin {
	for after, plugin := range older {
		i := slices.IndexFunc(plugins, func(p Plugin) bool { return p.Name == after })
		plugins = slices.Insert(plugins, i+1, plugin)
	}
	return plugins
}
