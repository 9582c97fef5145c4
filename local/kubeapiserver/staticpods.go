// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapiserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/internal/certs"
	"github.com/tripod-k8s/tripod/local/replicas"
)

// ManifestName is the name of the manifest from which kubeadm runs kube-apiserver. The aggregator takes it over, because it has the address that
// kubeadm and the kubelet know.
const ManifestName = Name + ".yaml"

const (
	// certificatesVolume is the volume with the certificates by which the services trust each other.
	certificatesVolume = "tripod-certs"
	// smallRequest is what extensions and the aggregator ask of the CPU. Core keeps what kube-apiserver asks.
	smallRequest = "100m"
	// handoverSeconds is the grace period of a pod whose requests go to another replica: 1 s of delay, 10 s for its watches, and the rest for
	// requests in flight.
	handoverSeconds = 45
)

// StaticPods says how to run the services as static pods in place of kube-apiserver.
type StaticPods struct {
	// Manifest is the static pod of kube-apiserver, as kubeadm wrote it.
	Manifest []byte
	// Repository and Tag make the names of the images: REPOSITORY/tripod-core:TAG.
	Repository, Tag string
	// CertDir is the directory for the certificates by which the services trust each other.
	CertDir string
	// Replicas are the numbers of replicas by service. A service without a number has one replica.
	Replicas map[string]int
}

// Manifest is a static pod and the name of its file.
type Manifest struct {
	File    string
	Content []byte
	// Ready is the URL that says whether the replica is ready. It is empty if the service has no other replica.
	Ready string
}

// Manifests returns the static pods in the order in which they start, and creates or renews the certificates. Every flag in the manifest goes to
// the services that have it, as [Main] does it. The files that the flags name must be there.
func (p StaticPods) Manifests(ctx context.Context) ([]Manifest, error) {
	on, err := newNode(p.Replicas)
	if err != nil {
		return nil, err
	}
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict(p.Manifest, &pod); err != nil {
		return nil, fmt.Errorf("the manifest is no pod: %w", err)
	}
	args, err := argumentsIn(&pod)
	if err != nil {
		return nil, err
	}
	var known *catalog
	var planned *plan
	cmd := newCommand(args, func(_ context.Context, c *catalog, s *plan) error {
		known, planned = c, s
		return nil
	})
	cmd.SilenceUsage = true
	cmd.SilenceErrors = true
	if err := cmd.ExecuteContext(ctx); err != nil {
		return nil, fmt.Errorf("the flags in the manifest: %w", err)
	}
	if planned.certificate.CertKey.CertFile == "" || planned.certificate.GeneratedCert != nil {
		return nil, errors.New("the manifest has no --tls-cert-file and --tls-private-key-file; kubeadm sets both")
	}
	store, err := certs.Open(p.CertDir)
	if err != nil {
		return nil, err
	}
	if err := replicas.EnsureTrust(store); err != nil {
		return nil, err
	}
	planned.handsOver = on[aggregator] > 1
	var manifests []Manifest
	for _, r := range on.replicas() {
		flags := planned.arguments(r.service, known, planned.certificate.CertKey, planned.ownAuditLog(r))
		flags = append(flags, planned.inStaticPod(r, on, store)...)
		manifest, err := yaml.Marshal(p.pod(&pod, r, on, flags))
		if err != nil {
			return nil, err
		}
		made := Manifest{File: r.podName() + ".yaml", Content: manifest}
		if on[r.service] > 1 {
			made.Ready = "http://" + loopback(r.ports().probes) + "/readyz"
		}
		manifests = append(manifests, made)
	}
	return manifests, nil
}

// argumentsIn returns the arguments of kube-apiserver in its static pod.
func argumentsIn(pod *corev1.Pod) ([]string, error) {
	if n := len(pod.Spec.Containers); n != 1 {
		return nil, fmt.Errorf("the manifest has %d containers, and that of kubeadm has one", n)
	}
	container := pod.Spec.Containers[0]
	command := slices.Concat(container.Command, container.Args)
	if len(command) == 0 || filepath.Base(command[0]) != Name {
		return nil, fmt.Errorf("the command in the manifest is not %s; give the manifest that kubeadm wrote", Name)
	}
	return command[1:], nil
}

// ownAuditLog are the flags by which each replica writes an audit log of its own, beside that of core. A pod has no process that could write
// one log for all.
func (s *plan) ownAuditLog(r staticReplica) []flagValue {
	var flags []flagValue
	for _, flag := range s.given {
		switch flag.name {
		case "audit-log-path":
			if r.service != core && flag.value != "-" {
				flag.value = besides(flag.value, string(r.service))
			}
			if r.number > 1 && flag.value != "-" {
				flag.value = besides(flag.value, strconv.Itoa(r.number))
			}
			flags = append(flags, flag)
		case "audit-log-maxage", "audit-log-maxbackup", "audit-log-maxsize", "audit-log-compress":
			flags = append(flags, flag)
		}
	}
	return flags
}

// inStaticPod are the flags by which the replicas on a node find and trust each other.
func (s *plan) inStaticPod(r staticReplica, on node, store *certs.Store) []string {
	flags := replicas.TrustFlags(store, string(r.service))
	if on[r.service] > 1 {
		flags = append(flags, fmt.Sprintf("--replica=%d", r.number))
	}
	if on.hasOwnProbes(r.service) {
		flags = append(flags, "--probe-bind-address="+loopback(r.ports().probes))
	}
	public := net.JoinHostPort(s.bindAddress.String(), strconv.Itoa(s.securePort))
	toAggregator := "--aggregator-servers=https://" + net.JoinHostPort(replicas.ClientAddress(s.bindAddress).String(), strconv.Itoa(s.securePort))
	if on[aggregator] > 1 {
		toAggregator = "--aggregator-servers=" + on.servers(aggregator)
	}
	toCore := "--core-servers=" + on.servers(core)
	if r.service == aggregator {
		if on[aggregator] > 1 { // these come after those of kube-apiserver, and so are the ones that count
			flags = append(flags, "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", r.ports().serving), "--shared-bind-address="+public)
		}
		return append(flags, toCore, "--core-grpc-servers="+on.grpcServers(core),
			"--extensions-servers="+on.servers(extensions), "--extensions-grpc-servers="+on.grpcServers(extensions))
	}
	ports := r.ports()
	flags = append(flags, replicas.ServingFlags(store, string(r.service), strconv.Itoa(int(ports.serving)), loopback(ports.grpc))...)
	if r.service == core {
		return append(flags, toAggregator, fmt.Sprintf("--advertise-port=%d", s.securePort))
	}
	return append(flags, toAggregator, toCore)
}

// pod returns the static pod of a replica: that of kube-apiserver with another program.
func (p StaticPods) pod(apiserver *corev1.Pod, r staticReplica, on node, flags []string) *corev1.Pod {
	pod := apiserver.DeepCopy()
	container := &pod.Spec.Containers[0]
	container.Image = fmt.Sprintf("%s/%s:%s", p.Repository, binary(r.service), p.Tag)
	container.Command = append([]string{binary(r.service)}, flags...)
	container.Args = nil
	container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: certificatesVolume, MountPath: p.CertDir, ReadOnly: true})
	directory := &corev1.HostPathVolumeSource{Path: p.CertDir, Type: ptr.To(corev1.HostPathDirectory)}
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: certificatesVolume, VolumeSource: corev1.VolumeSource{HostPath: directory}})
	// Root owns the keys in /etc/kubernetes/pki. The images of the services run as another user unless told otherwise.
	if pod.Spec.SecurityContext == nil {
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	pod.Spec.SecurityContext.RunAsUser = ptr.To[int64](0)
	pod.Spec.SecurityContext.RunAsGroup = ptr.To[int64](0)
	if on[r.service] > 1 {
		pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](handoverSeconds)
	}
	if r.service == core || container.Resources.Requests == nil {
		container.Resources = *apiserver.Spec.Containers[0].Resources.DeepCopy()
	} else {
		container.Resources.Requests[corev1.ResourceCPU] = resource.MustParse(smallRequest)
	}
	if on.hasOwnProbes(r.service) {
		probeAt(container, r.ports().probes)
	}
	if r.podName() == Name {
		return pod
	}
	pod.Name, container.Name = r.podName(), binary(r.service)
	metav1.SetMetaDataLabel(&pod.ObjectMeta, "component", binary(r.service))
	// kubeadm looks for the address of the API server at the pod that has it.
	pod.Annotations = nil
	container.Ports = nil
	return pod
}

// probeAt makes the probes of a container ask a port of 127.0.0.1.
func probeAt(container *corev1.Container, port int32) {
	for _, probe := range []*corev1.Probe{container.StartupProbe, container.LivenessProbe, container.ReadinessProbe} {
		if probe != nil && probe.HTTPGet != nil {
			probe.HTTPGet = &corev1.HTTPGetAction{
				Host: "127.0.0.1", Path: probe.HTTPGet.Path, Port: intstr.FromInt32(port), Scheme: corev1.URISchemeHTTP,
			}
		}
	}
}
