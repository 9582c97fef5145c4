// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapiserver

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

const (
	unprivilegedPortsFile = "/proc/sys/net/ipv4/ip_unprivileged_port_start"
	sharedBindFlag        = "--shared-bind-address="
	maxUserID             = 1<<31 - 1
)

// DefaultUsers are the IDs of the users and groups as which the services run. Neither useradd nor systemd gives these to others.
var DefaultUsers = map[string]int{string(aggregator): 65521, string(core): 65522, string(extensions): 65523}

// firstPartitionUser is the ID of the first partition of extensions. Each next one has the next. The user 65534 is that of Linux.
const firstPartitionUser = 65524

// podUser is the user of a static pod.
type podUser struct {
	id int
	// capabilities are those of root in the pod.
	capabilities []corev1.Capability
}

// podUsers are the users of the services, and why some have another one than they should.
type podUsers struct {
	all   map[serviceName]podUser
	notes []string
}

// newUsers returns the users as which the services can run on this host.
func (p StaticPods) newUsers(on *node, planned *plan) (*podUsers, error) {
	users := &podUsers{all: map[serviceName]podUser{}}
	taken := map[int]serviceName{}
	for _, name := range slices.Sorted(maps.Keys(p.Users)) {
		if err := on.check("users", name); err != nil {
			return nil, err
		}
	}
	for _, service := range on.services {
		id, given := p.Users[string(service)]
		if place := on.number(service); !given && place >= 0 {
			id = firstPartitionUser + place
		} else if !given {
			id = DefaultUsers[string(service)]
		}
		if id < 0 || id > maxUserID {
			return nil, fmt.Errorf("users: %s has the ID %d, want 0 to %d", service, id, maxUserID)
		}
		if other, shared := taken[id]; shared && id != 0 {
			return nil, fmt.Errorf("users: %s and %s have the ID %d: give each its own", other, service, id)
		}
		if of, err := user.LookupId(strconv.Itoa(id)); id != 0 && err == nil && of.Username != podOf(service) {
			return nil, fmt.Errorf("users: the ID %d of %s is that of %s on this host: choose another one", id, service, of.Username)
		}
		taken[id] = service
		users.all[service] = podUser{id: id}
	}
	return users, p.limit(users, on, planned.securePort)
}

// limit makes an exception for the aggregator if the host does not let it have its user.
func (p StaticPods) limit(users *podUsers, on *node, port int) error {
	if first := firstUnprivilegedPort(); port < first {
		users.makeRoot(aggregator, "NET_BIND_SERVICE", fmt.Sprintf("port %d is below net.ipv4.ip_unprivileged_port_start, %d", port, first))
	}
	if on.count[aggregator] == 1 || p.Running == nil {
		return nil
	}
	var running corev1.Pod
	if err := yaml.Unmarshal(p.Running, &running); err != nil {
		return fmt.Errorf("the manifest of the running %s is no pod: %w", Name, err)
	}
	if len(running.Spec.Containers) == 0 || !slices.ContainsFunc(running.Spec.Containers[0].Command, isSharedBind) {
		return nil
	}
	id := 0
	if context := running.Spec.SecurityContext; context != nil {
		id = int(ptr.Deref(context.RunAsUser, 0))
	}
	if of := users.all[aggregator]; of.id != id {
		users.all[aggregator] = podUser{id, of.capabilities}
		users.notes = append(users.notes, fmt.Sprintf("the aggregators go on running as user %d, "+
			"because processes of two users cannot share a port: "+
			"to change that, run this once with one aggregator", id))
	}
	return nil
}

func isSharedBind(argument string) bool { return strings.HasPrefix(argument, sharedBindFlag) }

// of returns the user of a replica that uses these paths.
func (u *podUsers) of(service serviceName, used *paths) podUser {
	if used.sockets.Len() > 0 {
		u.makeRoot(service, "DAC_OVERRIDE", "it connects to "+sets.List(used.sockets)[0])
	}
	return u.all[service]
}

// makeRoot has a service run as root, with one capability.
func (u *podUsers) makeRoot(service serviceName, capability corev1.Capability, why string) {
	now := u.all[service]
	if slices.Contains(now.capabilities, capability) {
		return
	}
	if now.id != 0 {
		u.notes = append(u.notes, fmt.Sprintf("%s runs as root, because %s", podOf(service), why))
	}
	u.all[service] = podUser{0, append(slices.Clone(now.capabilities), capability)}
}

// confine leaves a pod the rights of its user, and root no others than the capabilities.
func (u podUser) confine(pod *corev1.PodSpec) {
	profile := &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	if context := pod.SecurityContext; context != nil {
		profile = cmp.Or(context.SeccompProfile, profile)
	}
	pod.SecurityContext = &corev1.PodSecurityContext{
		RunAsUser: ptr.To(int64(u.id)), RunAsGroup: ptr.To(int64(u.id)), RunAsNonRoot: ptr.To(u.id != 0), SeccompProfile: profile,
	}
	pod.Containers[0].SecurityContext = &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false),
		ReadOnlyRootFilesystem:   ptr.To(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: u.capabilities},
	}
}

// firstUnprivilegedPort returns the first port at which any user may listen.
func firstUnprivilegedPort() int {
	const usual = 1024
	content, err := os.ReadFile(unprivilegedPortsFile)
	if err != nil {
		return usual
	}
	port, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return usual
	}
	return port
}
