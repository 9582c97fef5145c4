// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// appSize is how many objects an application has, and podsEach how many of them are pods.
const (
	appSize  = 10
	podsEach = 6
	// appsOfNamespace is how many applications share a namespace, and podsOfNode how many pods a node.
	appsOfNamespace = 20
	podsOfNode      = 30
	// teams share the applications, and each failsOf-th pod has failed.
	teams   = 50
	failsOf = 997
)

// created is when all objects were made.
var created = metav1.Unix(1_790_000_000, 0)

// words are parts of the names of applications.
var words = []string{"cart", "front", "orders", "search", "billing", "mail", "users", "stock", "price", "report", "photo", "gate", "audit", "cache", "queue", "label", "route", "token", "video", "chat"}

// app is an application of a cluster.
type app struct{ cluster, n int }

func (a app) name() string {
	return fmt.Sprintf("%s-%s-%d", words[a.n%len(words)], words[(a.n/len(words))%len(words)], a.n)
}
func (a app) namespace() string { return fmt.Sprintf("space-%d", a.n/appsOfNamespace) }
func (a app) hash() string      { return fmt.Sprintf("%010x", uint32(a.n*2654435761))[:10] }
func (a app) pod(i int) string {
	return fmt.Sprintf("%s-%s-%05x", a.name(), a.hash(), (a.n*podsEach+i)*7919%0xfffff)
}

// part is in the names of the pods of an application, and in few others.
func (a app) part() string { return fmt.Sprintf("%d-%s", a.n, a.hash()[:4]) }

func (a app) uid(kind, i int) types.UID {
	return types.UID(fmt.Sprintf("%08x-%04x-4%03x-8000-%012x", a.cluster, kind, i, a.n))
}

func (a app) labels() map[string]string {
	return map[string]string{
		"app.kubernetes.io/name": a.name(), "app.kubernetes.io/part-of": words[a.n%len(words)], "app.kubernetes.io/managed-by": "Helm",
		"team": fmt.Sprintf("team-%d", a.n%teams),
	}
}

// The kinds of objects in UIDs.
const (
	deploymentKind = iota
	replicaSetKind
	podKind
	serviceKind
	configMapKind
)

func (a app) meta(name string, kind, i int, owner *metav1.OwnerReference) metav1.ObjectMeta {
	m := metav1.ObjectMeta{
		Name: name, Namespace: a.namespace(), UID: a.uid(kind, i), CreationTimestamp: created, Labels: a.labels(),
		Annotations:   map[string]string{"meta.helm.sh/release-name": a.name(), "meta.helm.sh/release-namespace": a.namespace()},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "helm", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", Time: &created, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(managed)}},
	}
	if owner != nil {
		owner.Controller, owner.BlockOwnerDeletion, m.OwnerReferences = ptr.To(true), ptr.To(true), []metav1.OwnerReference{*owner}
	}
	return m
}

// managed has managed fields of the usual length.
var managed = managedFields()

func managedFields() string {
	var fields strings.Builder
	for n := range 12 { // a name twice is no JSON that search copies
		fmt.Fprintf(&fields, `"f:member-%02d":{"f:labels":{".":{},"f:app.kubernetes.io/name":{},"f:team":{}}},`, n)
	}
	return "{" + fields.String() + `"f:spec":{}}`
}

func (a app) template() corev1.PodTemplateSpec {
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(8080), Scheme: "HTTP"}}, PeriodSeconds: 10, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 3}
	mounts := []corev1.VolumeMount{{Name: "config", MountPath: "/etc/app", ReadOnly: true}, {Name: "scratch", MountPath: "/tmp"}}
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: a.labels()},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyAlways, DNSPolicy: corev1.DNSClusterFirst, SchedulerName: "default-scheduler", ServiceAccountName: "default",
			TerminationGracePeriodSeconds: ptr.To[int64](30), SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true)},
			Volumes: []corev1.Volume{
				{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: a.name()}}}},
				{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			},
			Containers: []corev1.Container{{
				Name: "app", Image: fmt.Sprintf("registry.example.com/%s:%d.%d", words[a.n%len(words)], 1+a.n%3, a.n%40), ImagePullPolicy: corev1.PullIfNotPresent,
				Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}, {Name: "metrics", ContainerPort: 9090, Protocol: corev1.ProtocolTCP}},
				Env:   []corev1.EnvVar{{Name: "APP", Value: a.name()}, {Name: "LOG_LEVEL", Value: "info"}, {Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}}}},
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("128Mi")},
					Limits:   corev1.ResourceList{"memory": resource.MustParse("256Mi")},
				},
				VolumeMounts: mounts, ReadinessProbe: probe, LivenessProbe: probe, TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
			}},
		},
	}
}

func (a app) deployment() *appsv1.Deployment {
	return &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: a.meta(a.name(), deploymentKind, 0, nil),
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](podsEach), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": a.name()}}, Template: a.template(),
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType},
		},
		Status: appsv1.DeploymentStatus{Replicas: podsEach, ReadyReplicas: podsEach, AvailableReplicas: podsEach, UpdatedReplicas: podsEach},
	}
}

func (a app) replicaSet() *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"},
		ObjectMeta: a.meta(a.name()+"-"+a.hash(), replicaSetKind, 0, &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: a.name(), UID: a.uid(deploymentKind, 0)}),
		Spec: appsv1.ReplicaSetSpec{
			Replicas: ptr.To[int32](podsEach), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": a.name(), "pod-template-hash": a.hash()}}, Template: a.template(),
		},
		Status: appsv1.ReplicaSetStatus{Replicas: podsEach, ReadyReplicas: podsEach, AvailableReplicas: podsEach},
	}
}

func (a app) podObject(i int) *corev1.Pod {
	template, n := a.template(), a.n*podsEach+i
	p := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: a.meta(a.pod(i), podKind, i, &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: a.name() + "-" + a.hash(), UID: a.uid(replicaSetKind, 0)}),
		Spec:       template.Spec,
	}
	p.Labels["pod-template-hash"] = a.hash()
	p.Spec.NodeName = fmt.Sprintf("node-%d", n/podsOfNode)
	ip, phase, ready := fmt.Sprintf("10.%d.%d.%d", n>>16&255, n>>8&255, n&255), corev1.PodRunning, corev1.ConditionTrue
	if n%failsOf == 0 {
		phase, ready = corev1.PodFailed, corev1.ConditionFalse
	}
	p.Status = corev1.PodStatus{Phase: phase, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}, HostIP: "10.0.0.1", StartTime: &created, QOSClass: corev1.PodQOSBurstable}
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind, Status: ready, LastTransitionTime: created})
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "app", Ready: ready == corev1.ConditionTrue, Image: p.Spec.Containers[0].Image, ImageID: "registry.example.com/app@sha256:" + strings.Repeat("0123456789abcdef", 4),
		ContainerID: fmt.Sprintf("containerd://%064x", n), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: created}},
	}}
	return p
}

func (a app) service() *corev1.Service {
	return &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: a.meta(a.name(), serviceKind, 0, nil),
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: corev1.ClusterIPNone, ClusterIPs: []string{corev1.ClusterIPNone}, Selector: map[string]string{"app.kubernetes.io/name": a.name()},
			Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080), Protocol: corev1.ProtocolTCP}},
		},
	}
}

func (a app) configMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: a.meta(a.name(), configMapKind, 0, nil),
		Data: map[string]string{"app.yaml": strings.Repeat("key: a value of the usual length\n", 20)},
	}
}
