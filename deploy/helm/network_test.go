// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// networkPolicies returns the NetworkPolicies of a release.
func networkPolicies(t *testing.T, r release) []*networkingv1.NetworkPolicy {
	t.Helper()
	var policies []*networkingv1.NetworkPolicy
	for _, object := range r.objects {
		if object.GetKind() == "NetworkPolicy" {
			policies = append(policies, find(t, r, "NetworkPolicy", object.GetName(), &networkingv1.NetworkPolicy{}))
		}
	}
	return policies
}

func selects(t *testing.T, selector *metav1.LabelSelector, p pod) bool {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	require.NoError(t, err)
	return s.Matches(labels.Set(p.meta.Labels))
}

// allows returns whether a rule allows a port and a peer. The peer is a pod of the release.
func allows(t *testing.T, ports []networkingv1.NetworkPolicyPort, peers []networkingv1.NetworkPolicyPeer, port int, peer pod) bool {
	t.Helper()
	atPort := len(ports) == 0 || slices.ContainsFunc(ports, func(p networkingv1.NetworkPolicyPort) bool { return p.Port.IntValue() == port })
	return atPort && (len(peers) == 0 || slices.ContainsFunc(peers, func(p networkingv1.NetworkPolicyPeer) bool {
		return p.PodSelector != nil && p.NamespaceSelector == nil && selects(t, p.PodSelector, peer)
	}))
}

// reaches returns whether the policies of both pods allow one to connect to a port of the other.
func reaches(t *testing.T, policies []*networkingv1.NetworkPolicy, from, to pod, port int) bool {
	t.Helper()
	out, in := false, false
	for _, policy := range policies {
		if selects(t, &policy.Spec.PodSelector, from) {
			for _, rule := range policy.Spec.Egress {
				out = out || allows(t, rule.Ports, rule.To, port, to)
			}
		}
		if selects(t, &policy.Spec.PodSelector, to) {
			for _, rule := range policy.Spec.Ingress {
				in = in || allows(t, rule.Ports, rule.From, port, from)
			}
		}
	}
	return out && in
}

func TestAllIsDeniedThatIsNotAllowed(t *testing.T) {
	forEachProfile(t, func(t *testing.T, r release) {
		for _, p := range r.pods(t) {
			denied := slices.ContainsFunc(networkPolicies(t, r), func(policy *networkingv1.NetworkPolicy) bool {
				return len(policy.Spec.Ingress)+len(policy.Spec.Egress) == 0 && len(policy.Spec.PolicyTypes) == 2 && selects(t, &policy.Spec.PodSelector, p)
			})
			assert.True(t, denied, "no NetworkPolicy denies %s all connections by default", p.owner)
		}
	})
}

func TestWhoReachesWhom(t *testing.T) {
	const https, grpc, tunnel, client, peer, metrics = 6443, 6444, 8132, 2379, 2380, 2381
	r := render(t, merged(t, withControllers, withJoin, "services: {wardle: {image: {repository: a}}}\nextensions: {replicas: 0, partitions: {shop: {groups: [shop.example.com]}}}\netcd: {mode: perService, snapshots: {enabled: true}}\nnetworkPolicy: {outside: [{ipBlock: {cidr: 192.0.2.0/24}}]}"))
	policies := networkPolicies(t, r)
	want := map[string]bool{}
	for _, connection := range []struct {
		from, to string
		ports    []int
	}{
		{"aggregator", "core", []int{https, grpc}},
		{"aggregator", "extensions", []int{https, grpc}},
		{"aggregator", "extensions-shop", []int{https, grpc}},
		{"extensions-shop", "aggregator", []int{https}},
		{"extensions-shop", "core", []int{https}},
		{"extensions-shop", "etcd-extensions", []int{client}},
		{"aggregator", "wardle", []int{https, grpc}},
		{"wardle", "aggregator", []int{https}},
		{"wardle", "core", []int{https}},
		{"wardle", "etcd", []int{client}},
		{"core", "aggregator", []int{https}},
		{"extensions", "aggregator", []int{https}},
		{"extensions", "core", []int{https}},
		{"check", "aggregator", []int{https}},
		{"join", "aggregator", []int{https}},
		{"controller-manager", "aggregator", []int{https}},
		{"scheduler", "aggregator", []int{https}},
		// These pods may connect to an API server anywhere, at its ports, and all may connect to the aggregator.
		{"certificates", "aggregator", []int{https}},
		{"certificates-hook", "aggregator", []int{https}},
		{"aggregator", "etcd", []int{client}},
		{"core", "etcd", []int{client}},
		{"extensions", "etcd-extensions", []int{client}},
		{"etcd-snapshot", "etcd", []int{client}},
		{"etcd-snapshot", "etcd-extensions", []int{client}},
		{"etcd-extensions-snapshot", "etcd", []int{client}},
		{"etcd-extensions-snapshot", "etcd-extensions", []int{client}},
		{"etcd-access", "etcd", []int{client}},
		{"etcd-access", "etcd-extensions", []int{client}},
		{"etcd-extensions-access", "etcd", []int{client}},
		{"etcd-extensions-access", "etcd-extensions", []int{client}},
		{"etcd-defrag", "etcd", []int{client}},
		{"etcd-defrag", "etcd-extensions", []int{client}},
		{"etcd-extensions-defrag", "etcd", []int{client}},
		{"etcd-extensions-defrag", "etcd-extensions", []int{client}},
		{"split-etcd", "etcd", []int{client}},
		{"split-etcd", "etcd-extensions", []int{client}},
		{"etcd", "etcd", []int{peer}},
		{"etcd-extensions", "etcd-extensions", []int{peer}},
	} {
		for _, port := range connection.ports {
			want[fmt.Sprintf("%s -> %s:%d", connection.from, connection.to, port)] = true
		}
	}
	for _, from := range r.pods(t) {
		for _, to := range r.pods(t) {
			for _, port := range []int{https, grpc, 6445, tunnel, client, peer, metrics, 10257, 10259} {
				connection := fmt.Sprintf("%s -> %s:%d", name(from), name(to), port)
				if got := reaches(t, policies, from, to, port); got != want[connection] {
					t.Errorf("%s: allowed is %v, want %v", connection, got, !got)
				}
				delete(want, connection)
			}
		}
	}
	for connection := range want {
		t.Errorf("%s is not a connection between pods of the release", connection)
	}
}

// name returns the name of the object that owns a pod, without the name of the release.
func name(p pod) string {
	var kind, name string
	if _, err := fmt.Sscanf(p.owner, "%s tripod-%s", &kind, &name); err != nil {
		return p.owner
	}
	return perRelease.ReplaceAllString(name, "")
}

// perRelease is the end of the names of Jobs that each change of the release makes anew.
var perRelease = regexp.MustCompile("-[0-9a-f]{8}$")
