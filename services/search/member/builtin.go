// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import "k8s.io/apimachinery/pkg/runtime/schema"

// builtIn is what Kubernetes itself says about its resources, in all their versions. A member cannot say otherwise: clients of all clusters
// find pods by this. TestBuiltInKindsAreThoseOfKubernetes has them from Kubernetes.
var builtIn = map[schema.GroupResource]builtInKind{
	{Resource: "configmaps"}:             {name: "ConfigMap", namespaced: true},
	{Resource: "endpoints"}:              {name: "Endpoints", namespaced: true},
	{Resource: "events"}:                 {name: "Event", namespaced: true},
	{Resource: "limitranges"}:            {name: "LimitRange", namespaced: true},
	{Resource: "namespaces"}:             {name: "Namespace"},
	{Resource: "nodes"}:                  {name: "Node"},
	{Resource: "persistentvolumeclaims"}: {name: "PersistentVolumeClaim", namespaced: true},
	{Resource: "persistentvolumes"}:      {name: "PersistentVolume"},
	{Resource: "pods"}:                   {name: "Pod", namespaced: true},
	{Resource: "podtemplates"}:           {name: "PodTemplate", namespaced: true},
	{Resource: "replicationcontrollers"}: {name: "ReplicationController", namespaced: true},
	{Resource: "resourcequotas"}:         {name: "ResourceQuota", namespaced: true},
	{Resource: "secrets"}:                {name: "Secret", namespaced: true},
	{Resource: "serviceaccounts"}:        {name: "ServiceAccount", namespaced: true},
	{Resource: "services"}:               {name: "Service", namespaced: true},
	{Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicies"}:         {name: "MutatingAdmissionPolicy"},
	{Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicybindings"}:   {name: "MutatingAdmissionPolicyBinding"},
	{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"}:     {name: "MutatingWebhookConfiguration"},
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"}:       {name: "ValidatingAdmissionPolicy"},
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicybindings"}: {name: "ValidatingAdmissionPolicyBinding"},
	{Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"}:   {name: "ValidatingWebhookConfiguration"},
	{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}:                 {name: "CustomResourceDefinition"},
	{Group: "apiregistration.k8s.io", Resource: "apiservices"}:                             {name: "APIService"},

	{Group: "apps", Resource: "controllerrevisions"}:                                 {name: "ControllerRevision", namespaced: true},
	{Group: "apps", Resource: "daemonsets"}:                                          {name: "DaemonSet", namespaced: true},
	{Group: "apps", Resource: "deployments"}:                                         {name: "Deployment", namespaced: true},
	{Group: "apps", Resource: "replicasets"}:                                         {name: "ReplicaSet", namespaced: true},
	{Group: "apps", Resource: "statefulsets"}:                                        {name: "StatefulSet", namespaced: true},
	{Group: "autoscaling", Resource: "horizontalpodautoscalers"}:                     {name: "HorizontalPodAutoscaler", namespaced: true},
	{Group: "batch", Resource: "cronjobs"}:                                           {name: "CronJob", namespaced: true},
	{Group: "batch", Resource: "jobs"}:                                               {name: "Job", namespaced: true},
	{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}:           {name: "CertificateSigningRequest"},
	{Group: "certificates.k8s.io", Resource: "clustertrustbundles"}:                  {name: "ClusterTrustBundle"},
	{Group: "certificates.k8s.io", Resource: "podcertificaterequests"}:               {name: "PodCertificateRequest", namespaced: true},
	{Group: "coordination.k8s.io", Resource: "leasecandidates"}:                      {name: "LeaseCandidate", namespaced: true},
	{Group: "coordination.k8s.io", Resource: "leases"}:                               {name: "Lease", namespaced: true},
	{Group: "discovery.k8s.io", Resource: "endpointslices"}:                          {name: "EndpointSlice", namespaced: true},
	{Group: "events.k8s.io", Resource: "events"}:                                     {name: "Event", namespaced: true},
	{Group: "flowcontrol.apiserver.k8s.io", Resource: "flowschemas"}:                 {name: "FlowSchema"},
	{Group: "flowcontrol.apiserver.k8s.io", Resource: "prioritylevelconfigurations"}: {name: "PriorityLevelConfiguration"},
	{Group: "internal.apiserver.k8s.io", Resource: "storageversions"}:                {name: "StorageVersion"},
	{Group: "lifecycle.k8s.io", Resource: "evictionrequests"}:                        {name: "EvictionRequest", namespaced: true},
	{Group: "lifecycle.k8s.io", Resource: "evictions"}:                               {name: "Eviction", namespaced: true},
	{Group: "networking.k8s.io", Resource: "ingressclasses"}:                         {name: "IngressClass"},
	{Group: "networking.k8s.io", Resource: "ingresses"}:                              {name: "Ingress", namespaced: true},
	{Group: "networking.k8s.io", Resource: "ipaddresses"}:                            {name: "IPAddress"},
	{Group: "networking.k8s.io", Resource: "networkpolicies"}:                        {name: "NetworkPolicy", namespaced: true},
	{Group: "networking.k8s.io", Resource: "servicecidrs"}:                           {name: "ServiceCIDR"},
	{Group: "node.k8s.io", Resource: "runtimeclasses"}:                               {name: "RuntimeClass"},
	{Group: "policy", Resource: "poddisruptionbudgets"}:                              {name: "PodDisruptionBudget", namespaced: true},
	{Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"}:            {name: "ClusterRoleBinding"},
	{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}:                   {name: "ClusterRole"},
	{Group: "rbac.authorization.k8s.io", Resource: "rolebindings"}:                   {name: "RoleBinding", namespaced: true},
	{Group: "rbac.authorization.k8s.io", Resource: "roles"}:                          {name: "Role", namespaced: true},
	{Group: "resource.k8s.io", Resource: "deviceclasses"}:                            {name: "DeviceClass"},
	{Group: "resource.k8s.io", Resource: "devicetaintrules"}:                         {name: "DeviceTaintRule"},
	{Group: "resource.k8s.io", Resource: "resourceclaims"}:                           {name: "ResourceClaim", namespaced: true},
	{Group: "resource.k8s.io", Resource: "resourceclaimtemplates"}:                   {name: "ResourceClaimTemplate", namespaced: true},
	{Group: "resource.k8s.io", Resource: "resourcepoolstatusrequests"}:               {name: "ResourcePoolStatusRequest"},
	{Group: "resource.k8s.io", Resource: "resourceslices"}:                           {name: "ResourceSlice"},
	{Group: "scheduling.k8s.io", Resource: "compositepodgroups"}:                     {name: "CompositePodGroup", namespaced: true},
	{Group: "scheduling.k8s.io", Resource: "podgroups"}:                              {name: "PodGroup", namespaced: true},
	{Group: "scheduling.k8s.io", Resource: "priorityclasses"}:                        {name: "PriorityClass"},
	{Group: "scheduling.k8s.io", Resource: "workloads"}:                              {name: "Workload", namespaced: true},
	{Group: "storage.k8s.io", Resource: "csidrivers"}:                                {name: "CSIDriver"},
	{Group: "storage.k8s.io", Resource: "csinodes"}:                                  {name: "CSINode"},
	{Group: "storage.k8s.io", Resource: "csistoragecapacities"}:                      {name: "CSIStorageCapacity", namespaced: true},
	{Group: "storage.k8s.io", Resource: "storageclasses"}:                            {name: "StorageClass"},
	{Group: "storage.k8s.io", Resource: "volumeattachments"}:                         {name: "VolumeAttachment"},
	{Group: "storage.k8s.io", Resource: "volumeattributesclasses"}:                   {name: "VolumeAttributesClass"},
	{Group: "storagemigration.k8s.io", Resource: "storageversionmigrations"}:         {name: "StorageVersionMigration"},
}

type builtInKind struct {
	name       string
	namespaced bool
}
