// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapiserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/base/certs"
	"github.com/tripod-k8s/tripod/local/replicas"
)

// ManifestName is the name of the manifest from which kubeadm runs kube-apiserver. The aggregator takes it over, because it has the
// address that kubeadm and the kubelet know.
const ManifestName = Name + ".yaml"

const (
	// smallRequest is what extensions and the aggregator ask of the CPU. Core keeps what kube-apiserver asks.
	smallRequest = "100m"
	// handoverSeconds is the grace period of a pod whose requests go to another replica: 1 s of delay, 10 s for its watches, and the rest for
	// requests in flight.
	handoverSeconds = 45
)

// auditLogFlags are those of the audit log of one process.
var auditLogFlags = []string{"audit-log-path", "audit-log-maxage", "audit-log-maxbackup", "audit-log-maxsize", "audit-log-compress"}

// StaticPods says how to run the services as static pods in place of kube-apiserver.
type StaticPods struct {
	// Manifest is the static pod of kube-apiserver, as kubeadm wrote it.
	Manifest []byte
	// Repository and Tag make the names of the images: REPOSITORY/tripod-core:TAG.
	Repository, Tag string
	// CertDir is the directory for the certificates by which the services trust each other, and for copies of the files that each service
	// reads. Only root enters it.
	CertDir string
	// Partitions are the partitions of extensions, of the form NAME=GROUP[,GROUP...].
	Partitions []string
	// Replicas are the numbers of replicas by service. A service without a number has one replica.
	Replicas map[string]int
	// Users are the user IDs by service. A service without one has that of DefaultUsers. 0 is root.
	Users map[string]int
	// EtcdCAKey is the key of the CA in --etcd-cafile, by which each service gets a client certificate of its own. Empty means the key beside
	// the CA, if there is one, and NoEtcdCAKey that all services use kube-apiserver's certificate.
	EtcdCAKey string
	// Running is the static pod that runs in place of that of kube-apiserver, if there is one.
	Running []byte

	// chown changes the owner of a path, but not through a symbolic link.
	chown func(path string, user, group int) error
}

// Made are static pods and their files.
type Made struct {
	// Manifests are the static pods in the order in which they start.
	Manifests []Manifest
	// Notes say what is not as it could be.
	Notes []string

	copies []*tree
	// former are directories with copies for partitions that are no longer wanted.
	former []string
}

// RemoveOthers removes copies of files that no static pod reads. Call it once the manifests are in force.
func (m *Made) RemoveOthers() error {
	var errs []error
	for _, copies := range m.copies {
		errs = append(errs, copies.prune())
	}
	for _, dir := range m.former {
		errs = append(errs, os.RemoveAll(dir))
	}
	return errors.Join(errs...)
}

// Manifest is a static pod and the name of its file.
type Manifest struct {
	File    string
	Content []byte
	// Ready is the URL that says whether the replica is ready. It is empty if the service has no other replica.
	Ready string
}

// Make makes the static pods, and creates or renews their certificates and files. Every flag in the manifest goes to the services that
// have it, as [Main] does it. The files that the flags name must be there.
func (p StaticPods) Make(ctx context.Context) (*Made, error) {
	if p.chown == nil {
		p.chown = os.Lchown
	}
	on, err := newNode(p.Partitions, p.Replicas)
	if err != nil {
		return nil, err
	}
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict(p.Manifest, &pod); err != nil {
		return nil, fmt.Errorf("the manifest is no pod: %w", err)
	}
	known, planned, err := planOf(ctx, &pod)
	if err != nil {
		return nil, err
	}
	store, err := certs.Open(p.CertDir)
	if err != nil {
		return nil, err
	}
	if err := replicas.EnsureTrust(store, on.partitions()...); err != nil {
		return nil, err
	}
	planned.handsOver = on.count[aggregator] > 1
	users, err := p.newUsers(on, planned)
	if err != nil {
		return nil, err
	}
	etcd, err := p.ensureEtcdClients(on, store, planned.given)
	if err != nil {
		return nil, err
	}
	m := maker{StaticPods: p, apiserver: &pod, on: on, known: known, planned: planned, store: store, users: users, etcd: etcd}
	made := &Made{}
	for _, service := range on.services {
		copies := &tree{root: filepath.Join(p.CertDir, string(service)), chown: p.chown,
			files: sets.New[string](), mountPoints: sets.New[string]()}
		for _, r := range on.of(service) {
			manifest, err := m.replica(r, copies)
			if err != nil {
				return nil, err
			}
			made.Manifests = append(made.Manifests, manifest)
		}
		if err := copies.write(); err != nil {
			return nil, err
		}
		made.copies = append(made.copies, copies)
	}
	if made.former, err = on.formerCopies(p.CertDir); err != nil {
		return nil, err
	}
	made.Notes = users.notes
	if etcd.note != "" {
		made.Notes = append(made.Notes, etcd.note)
	}
	for _, path := range unused(&pod, m.used) {
		made.Notes = append(made.Notes, "no static pod mounts "+path+", because no flag names a file there")
	}
	return made, nil
}

// maker makes the static pods of a node.
type maker struct {
	StaticPods

	apiserver *corev1.Pod
	on        *node
	known     *catalog
	planned   *plan
	store     *certs.Store
	users     *podUsers
	etcd      *etcdClients
	// used are the paths of the replicas made so far.
	used []*paths
}

// replica makes the manifest of a replica, and the directories that it mounts. The files to copy for it are added to those of its service.
func (m *maker) replica(r staticReplica, copies *tree) (Manifest, error) {
	flags := m.planned.arguments(r.service, m.known, m.planned.certificate.CertKey, m.planned.auditLogFlags())
	flags = append(m.etcd.replace(r.service, flags), m.planned.inStaticPod(r, m.on, m.store)...)
	used, err := pathsOf(r.service, flags)
	if err != nil {
		return Manifest{}, err
	}
	m.used = append(m.used, used)
	user := m.users.of(r.service, used)
	copies.group = user.id
	mounted, err := m.mountsOf(r, used, user.id, copies)
	if err != nil {
		return Manifest{}, err
	}
	pod := m.pod(r, flags)
	pod.Spec.Volumes, pod.Spec.Containers[0].VolumeMounts = mounted.volumes, mounted.mounts
	user.confine(&pod.Spec)
	content, err := yaml.Marshal(pod)
	if err != nil {
		return Manifest{}, err
	}
	made := Manifest{File: r.podName() + ".yaml", Content: content}
	if m.on.count[r.service] > 1 {
		made.Ready = "http://" + loopback(m.on.ports(r).probes) + "/readyz"
	}
	return made, nil
}

// planOf returns the plan for the arguments in the static pod of kube-apiserver.
func planOf(ctx context.Context, pod *corev1.Pod) (*catalog, *plan, error) {
	args, err := argumentsIn(pod)
	if err != nil {
		return nil, nil, err
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
		return nil, nil, fmt.Errorf("the flags in the manifest: %w", err)
	}
	if len(planned.groups) > 0 {
		return nil, nil, fmt.Errorf("the manifest has --%s: give that flag to this command, and take it out of the manifest", partitionFlag)
	}
	if planned.certificate.CertKey.CertFile == "" || planned.certificate.GeneratedCert != nil {
		return nil, nil, errors.New("the manifest has no --tls-cert-file and --tls-private-key-file; kubeadm sets both")
	}
	return known, planned, nil
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

// auditLogFlags are the flags of the audit log. A pod has no process that could write one log for all.
func (s *plan) auditLogFlags() []flagValue {
	return slices.DeleteFunc(slices.Clone(s.given), func(flag flagValue) bool { return !slices.Contains(auditLogFlags, flag.name) })
}

// inStaticPod are the flags by which the replicas on a node find and trust each other.
func (s *plan) inStaticPod(r staticReplica, on *node, store *certs.Store) []string {
	flags := replicas.TrustFlags(store, string(r.service))
	if on.count[r.service] > 1 {
		flags = append(flags, fmt.Sprintf("--replica=%d", r.number))
	}
	if on.hasOwnProbes(r.service) {
		flags = append(flags, "--probe-bind-address="+loopback(on.ports(r).probes))
	}
	public := net.JoinHostPort(s.bindAddress.String(), strconv.Itoa(s.securePort))
	toAggregator := "--aggregator-servers=https://" +
		net.JoinHostPort(replicas.ClientAddress(s.bindAddress).String(), strconv.Itoa(s.securePort))
	if on.count[aggregator] > 1 {
		toAggregator = "--aggregator-servers=" + on.servers(aggregator)
	}
	toCore := "--core-servers=" + on.servers(core)
	if r.service == aggregator {
		if on.count[aggregator] > 1 { // these come after those of kube-apiserver, and so are the ones that count
			flags = append(flags, "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", on.ports(r).serving), sharedBindFlag+public)
		}
		flags = append(flags, toCore, "--core-grpc-servers="+on.grpcServers(core),
			"--extensions-servers="+on.servers(extensions), "--extensions-grpc-servers="+on.grpcServers(extensions))
		return append(flags, on.backendFlags()...)
	}
	ports := on.ports(r)
	flags = append(flags, replicas.ServingFlags(store, string(r.service), strconv.Itoa(int(ports.serving)), loopback(ports.grpc))...)
	if r.service == core {
		return append(flags, toAggregator, fmt.Sprintf("--advertise-port=%d", s.securePort))
	}
	return append(append(flags, toAggregator, toCore), on.partitionFlags(r.service)...)
}

// pod returns the static pod of a replica: that of kube-apiserver with another program.
func (m *maker) pod(r staticReplica, flags []string) *corev1.Pod {
	pod := m.apiserver.DeepCopy()
	container := &pod.Spec.Containers[0]
	container.Image = fmt.Sprintf("%s/%s:%s", m.Repository, binary(r.service), m.Tag)
	container.Command = append([]string{binary(r.service)}, flags...)
	container.Args = nil
	if m.on.count[r.service] > 1 {
		pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](handoverSeconds)
	}
	if r.service == core || container.Resources.Requests == nil {
		container.Resources = *m.apiserver.Spec.Containers[0].Resources.DeepCopy()
	} else {
		container.Resources.Requests[corev1.ResourceCPU] = resource.MustParse(smallRequest)
	}
	if m.on.hasOwnProbes(r.service) {
		probeAt(container, m.on.ports(r).probes)
	}
	if r.podName() == Name {
		return pod
	}
	pod.Name, container.Name = r.podName(), podOf(r.service)
	metav1.SetMetaDataLabel(&pod.ObjectMeta, "component", podOf(r.service))
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
