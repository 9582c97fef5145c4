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
)

// localPorts are the ports of 127.0.0.1 of a static pod. On a node, nothing that kubeadm starts has them.
type localPorts struct{ serving, grpc, probes int32 }

var portsOf = map[serviceName]localPorts{
	core:       {7440, 7441, 7442},
	extensions: {7443, 7444, 7445},
}

// StaticPods says how to run the services as static pods in place of kube-apiserver.
type StaticPods struct {
	// Manifest is the static pod of kube-apiserver, as kubeadm wrote it.
	Manifest []byte
	// Repository and Tag make the names of the images: REPOSITORY/tripod-core:TAG.
	Repository, Tag string
	// CertDir is the directory for the certificates by which the services trust each other.
	CertDir string
}

// Manifest is a static pod and the name of its file.
type Manifest struct {
	File    string
	Content []byte
}

// Manifests returns the static pods in the order in which they start, and creates or renews the certificates. Every flag in the manifest goes to
// the services that have it, as [Main] does it. The files that the flags name must be there.
func (p StaticPods) Manifests(ctx context.Context) ([]Manifest, error) {
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
	var manifests []Manifest
	for _, name := range []serviceName{core, extensions, aggregator} {
		flags := planned.arguments(name, known, planned.certificate.CertKey, planned.ownAuditLog(name))
		flags = append(flags, planned.inStaticPod(name, store)...)
		manifest, err := yaml.Marshal(p.pod(&pod, name, flags))
		if err != nil {
			return nil, err
		}
		file := ManifestName
		if name != aggregator {
			file = binary(name) + ".yaml"
		}
		manifests = append(manifests, Manifest{file, manifest})
	}
	return manifests, nil
}

func binary(name serviceName) string { return "tripod-" + string(name) }

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

// ownAuditLog are the flags by which each service writes an audit log of its own, beside that of core. A pod has no process that could write
// one log for all.
func (s *plan) ownAuditLog(name serviceName) []flagValue {
	var flags []flagValue
	for _, flag := range s.given {
		switch flag.name {
		case "audit-log-path":
			if name != core && flag.value != "-" {
				flag.value = besides(flag.value, string(name))
			}
			flags = append(flags, flag)
		case "audit-log-maxage", "audit-log-maxbackup", "audit-log-maxsize", "audit-log-compress":
			flags = append(flags, flag)
		}
	}
	return flags
}

// inStaticPod are the flags by which the services find and trust each other as static pods of one node.
func (s *plan) inStaticPod(name serviceName, store *certs.Store) []string {
	flags := replicas.TrustFlags(store, string(name))
	if ports, local := portsOf[name]; local {
		flags = append(flags, replicas.ServingFlags(store, string(name), strconv.Itoa(int(ports.serving)), loopback(ports.grpc))...)
		flags = append(flags, "--probe-bind-address="+loopback(ports.probes))
	}
	toAggregator := "--aggregator-servers=https://" + net.JoinHostPort(replicas.ClientAddress(s.bindAddress).String(), strconv.Itoa(s.securePort))
	toCore := "--core-servers=https://" + loopback(portsOf[core].serving)
	switch name {
	case core:
		return append(flags, toAggregator, fmt.Sprintf("--advertise-port=%d", s.securePort))
	case extensions:
		return append(flags, toAggregator, toCore)
	default:
		return append(flags, toCore, "--core-grpc-servers="+loopback(portsOf[core].grpc),
			"--extensions-servers=https://"+loopback(portsOf[extensions].serving), "--extensions-grpc-servers="+loopback(portsOf[extensions].grpc))
	}
}

func loopback(port int32) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))) }

// pod returns the static pod of a service: that of kube-apiserver with another program.
func (p StaticPods) pod(apiserver *corev1.Pod, name serviceName, flags []string) *corev1.Pod {
	pod := apiserver.DeepCopy()
	container := &pod.Spec.Containers[0]
	container.Image = fmt.Sprintf("%s/%s:%s", p.Repository, binary(name), p.Tag)
	container.Command = append([]string{binary(name)}, flags...)
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
	if name == core || container.Resources.Requests == nil {
		container.Resources = *apiserver.Spec.Containers[0].Resources.DeepCopy()
	} else {
		container.Resources.Requests[corev1.ResourceCPU] = resource.MustParse(smallRequest)
	}
	if name == aggregator {
		return pod
	}
	pod.Name, container.Name = binary(name), binary(name)
	metav1.SetMetaDataLabel(&pod.ObjectMeta, "component", binary(name))
	// kubeadm looks for the address of the API server at the pod that has it.
	pod.Annotations = nil
	container.Ports = nil
	for _, probe := range []*corev1.Probe{container.StartupProbe, container.LivenessProbe, container.ReadinessProbe} {
		if probe != nil && probe.HTTPGet != nil {
			probe.HTTPGet = &corev1.HTTPGetAction{
				Host: "127.0.0.1", Path: probe.HTTPGet.Path, Port: intstr.FromInt32(portsOf[name].probes), Scheme: corev1.URISchemeHTTP,
			}
		}
	}
	return pod
}
