// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapiserver

import (
	"net"
	"slices"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// kubeFlags returns all flags of kube-apiserver.
func kubeFlags() *pflag.FlagSet {
	all := pflag.NewFlagSet(Name, pflag.ContinueOnError)
	for _, set := range options.NewServerRunOptions().Flags().FlagSets {
		all.AddFlagSet(set)
	}
	return all
}

// argumentsOf returns what each service is started with for args, with the defaults of kube-apiserver.
func argumentsOf(t *testing.T, args []string, change func(*plan)) map[serviceName][]string {
	t.Helper()
	given, err := parse(kubeFlags(), args)
	require.NoError(t, err)
	s := &plan{given: given, securePort: 6443, advertiseAddress: net.IPv4(192, 0, 2, 1), readOnly: 400, mutating: 200}
	if change != nil {
		change(s)
	}
	known := newCatalog()
	result := map[serviceName][]string{}
	for _, to := range services {
		result[to] = s.arguments(to, known, genericoptions.CertKey{CertFile: "public.crt", KeyFile: "public.key"}, throughSocket("audit.sock"))
	}
	return result
}

// flagTests are flags of kube-apiserver, and what services get of them.
var flagTests = []struct {
	name   string
	args   []string
	change func(*plan)
	// want are arguments that a service gets, and not those that it does not get.
	want, not map[serviceName][]string
}{
	{
		name: "storage, for everyone",
		args: []string{"--etcd-servers=http://a,http://b", "--etcd-prefix", "/x"},
		want: map[serviceName][]string{
			core:       {"--etcd-servers=http://a,http://b", "--etcd-prefix=/x"},
			extensions: {"--etcd-servers=http://a,http://b", "--etcd-prefix=/x"},
			aggregator: {"--etcd-servers=http://a,http://b", "--etcd-prefix=/x"},
		},
	},
	{
		name: "a flag that was given twice keeps its order",
		args: []string{"--etcd-servers=http://b", "--etcd-servers=http://a"},
		want: map[serviceName][]string{core: {"--etcd-servers=http://b", "--etcd-servers=http://a"}},
	},
	{
		name: "tokens, for core",
		args: []string{"--service-account-issuer=https://issuer", "--enable-bootstrap-token-auth"},
		want: map[serviceName][]string{core: {"--service-account-issuer=https://issuer", "--enable-bootstrap-token-auth=true"}},
		not: map[serviceName][]string{
			extensions: {"--service-account-issuer=https://issuer"},
			aggregator: {"--service-account-issuer=https://issuer"},
		},
	},
	{
		name: "the public endpoint, for the aggregator",
		args: []string{"--bind-address=192.0.2.9", "--secure-port=7443", "--tls-min-version=VersionTLS13", "--cert-dir=/certs"},
		want: map[serviceName][]string{aggregator: {
			"--bind-address=192.0.2.9", "--secure-port=7443", "--tls-min-version=VersionTLS13",
			"--tls-cert-file=public.crt", "--tls-private-key-file=public.key", "--apiservice-form=local",
		}},
		not: map[serviceName][]string{
			core:       {"--bind-address=192.0.2.9", "--secure-port=7443", "--tls-min-version=VersionTLS13", "--cert-dir=/certs"},
			extensions: {"--bind-address=192.0.2.9", "--secure-port=7443", "--tls-min-version=VersionTLS13", "--cert-dir=/certs"},
		},
	},
	{
		name: "the certificate that was given is named once",
		args: []string{"--tls-cert-file=given.crt", "--tls-private-key-file=given.key"},
		not: map[serviceName][]string{
			core: {"--tls-cert-file=given.crt"}, extensions: {"--tls-cert-file=given.crt"}, aggregator: {"--tls-cert-file=given.crt"},
		},
	},
	{
		name: "feature gates and versions, for everyone",
		args: []string{"--feature-gates=A=true", "--runtime-config=api/all=true", "--emulated-version=1.35"},
		want: map[serviceName][]string{
			core:       {"--feature-gates=A=true", "--runtime-config=api/all=true", "--emulated-version=1.35"},
			extensions: {"--feature-gates=A=true", "--runtime-config=api/all=true", "--emulated-version=1.35"},
			aggregator: {"--feature-gates=A=true", "--runtime-config=api/all=true", "--emulated-version=1.35"},
		},
	},
	{
		name: "an audit log has one writer",
		args: []string{
			"--audit-log-path=/var/log/audit.log", "--audit-log-maxsize=5", "--audit-log-maxage=6", "--audit-log-maxbackup=7", "--audit-log-compress",
			"--audit-log-mode=batch", "--audit-policy-file=p.yaml",
		},
		change: func(s *plan) { s.auditLog.Path = "/var/log/audit.log" },
		want: map[serviceName][]string{
			core:       {"--audit-log-mode=batch", "--audit-policy-file=p.yaml", "--audit-log-socket=audit.sock"},
			extensions: {"--audit-log-mode=batch", "--audit-policy-file=p.yaml", "--audit-log-socket=audit.sock"},
			aggregator: {"--audit-log-mode=batch", "--audit-policy-file=p.yaml", "--audit-log-socket=audit.sock"},
		},
		not: map[serviceName][]string{
			core: {"--audit-log-path=/var/log/audit.log"}, extensions: {"--audit-log-maxsize=5"}, aggregator: {"--audit-log-compress=true"},
		},
	},
	{
		name: "services get the admission plugins that they have",
		args: []string{
			"--enable-admission-plugins=NodeRestriction,NamespaceExists,OwnerReferencesPermissionEnforcement,AlwaysDeny", "--disable-admission-plugins=ServiceAccount",
			"--admission-control-config-file=a.yaml",
		},
		want: map[serviceName][]string{
			core: {
				"--enable-admission-plugins=NodeRestriction,NamespaceExists,OwnerReferencesPermissionEnforcement,AlwaysDeny", "--disable-admission-plugins=ServiceAccount",
				"--admission-control-config-file=a.yaml",
			},
			extensions: {"--enable-admission-plugins=NamespaceExists,OwnerReferencesPermissionEnforcement,AlwaysDeny", "--admission-control-config-file=a.yaml"},
			aggregator: {"--enable-admission-plugins=OwnerReferencesPermissionEnforcement,AlwaysDeny", "--admission-control-config-file=a.yaml"},
		},
		not: map[serviceName][]string{
			extensions: {"--disable-admission-plugins=ServiceAccount", "--disable-admission-plugins="},
			aggregator: {"--disable-admission-plugins=ServiceAccount"},
		},
	},
	{
		name: "a client that connects is the aggregator's, and its shutdown is the one that is delayed",
		args: []string{"--goaway-chance=0.01", "--shutdown-delay-duration=5s", "--cors-allowed-origins=//x$"},
		want: map[serviceName][]string{aggregator: {"--goaway-chance=0.01", "--shutdown-delay-duration=5s", "--cors-allowed-origins=//x$"}},
		not: map[serviceName][]string{
			core:       {"--goaway-chance=0.01", "--shutdown-delay-duration=5s", "--cors-allowed-origins=//x$"},
			extensions: {"--goaway-chance=0.01", "--shutdown-delay-duration=5s", "--cors-allowed-origins=//x$"},
		},
	},
	{
		name: "all advertise one address",
		args: []string{"--advertise-address=192.0.2.1"},
		want: map[serviceName][]string{
			core: {"--advertise-address=192.0.2.1"}, extensions: {"--advertise-address=192.0.2.1"}, aggregator: {"--advertise-address=192.0.2.1"},
		},
	},
	{
		name: "the limits are divided",
		args: []string{"--max-requests-inflight=1000", "--enable-priority-and-fairness=true"},
		change: func(s *plan) {
			s.readOnly, s.mutating = 1000, 1
		},
		want: map[serviceName][]string{
			core:       {"--enable-priority-and-fairness=true", "--max-requests-inflight=667", "--max-mutating-requests-inflight=1"},
			extensions: {"--enable-priority-and-fairness=true", "--max-requests-inflight=333", "--max-mutating-requests-inflight=1"},
			aggregator: {"--enable-priority-and-fairness=true", "--max-requests-inflight=1000", "--max-mutating-requests-inflight=1"},
		},
	},
	{
		name:   "no limit is no limit",
		change: func(s *plan) { s.readOnly = 0 },
		want: map[serviceName][]string{
			core: {"--max-requests-inflight=0"}, extensions: {"--max-requests-inflight=0"},
		},
	},
	{
		name: "policy, for everyone",
		args: []string{"--authorization-mode=Node,Webhook", "--authorization-webhook-config-file=w.yaml", "--authorization-webhook-cache-authorized-ttl=1s"},
		want: map[serviceName][]string{
			core:       {"--authorization-mode=Node,Webhook", "--authorization-webhook-config-file=w.yaml", "--authorization-webhook-cache-authorized-ttl=1s"},
			extensions: {"--authorization-mode=Node,Webhook", "--authorization-webhook-config-file=w.yaml", "--authorization-webhook-cache-authorized-ttl=1s"},
			aggregator: {"--authorization-mode=Node,Webhook", "--authorization-webhook-config-file=w.yaml", "--authorization-webhook-cache-authorized-ttl=1s"},
		},
	},
	{
		name: "who is anonymous, for those who may be asked without credentials",
		args: []string{"--anonymous-auth=true", "--authentication-config=a.yaml"},
		want: map[serviceName][]string{
			aggregator: {"--anonymous-auth=true", "--authentication-config=a.yaml"},
			core:       {"--anonymous-auth=true", "--authentication-config=a.yaml"},
		},
		not: map[serviceName][]string{extensions: {"--anonymous-auth=true"}},
	},
	{
		name:   "gates that are switched off come last",
		args:   []string{"--feature-gates=AllAlpha=true"},
		change: func(s *plan) { s.gates = []flagValue{{"feature-gates", "StorageVersionAPI=false"}} },
		want: map[serviceName][]string{
			core:       {"--feature-gates=AllAlpha=true", "--feature-gates=StorageVersionAPI=false"},
			extensions: {"--feature-gates=AllAlpha=true", "--feature-gates=StorageVersionAPI=false"},
			aggregator: {"--feature-gates=AllAlpha=true", "--feature-gates=StorageVersionAPI=false"},
		},
	},
}

func TestServicesGetTheFlagsThatAreTheirs(t *testing.T) {
	for _, tc := range flagTests {
		t.Run(tc.name, func(t *testing.T) {
			got := argumentsOf(t, tc.args, tc.change)
			for to, wanted := range tc.want {
				if found := common(got[to], wanted); !slices.Equal(found, wanted) {
					t.Errorf("%s gets %q of %q", to, found, wanted)
				}
			}
			for to, unwanted := range tc.not {
				assert.Empty(t, common(got[to], unwanted), "%s", to)
			}
		})
	}
}

// common returns those of args that are among some, in their order.
func common(args, some []string) []string {
	var found []string
	for _, arg := range args {
		if slices.Contains(some, arg) {
			found = append(found, arg)
		}
	}
	return found
}

func TestAdmissionControlIsACompleteList(t *testing.T) {
	s := &plan{admissionControl: []string{"NodeRestriction", "NamespaceLifecycle"}}
	for to, want := range map[serviceName][]flagValue{
		extensions: {
			{"enable-admission-plugins", "NamespaceLifecycle"},
			{"disable-admission-plugins", "AlwaysAdmit,AlwaysDeny,MutatingAdmissionPolicy,MutatingAdmissionWebhook,NamespaceAutoProvision,NamespaceExists," +
				"OwnerReferencesPermissionEnforcement,ResourceQuota,ValidatingAdmissionPolicy,ValidatingAdmissionWebhook"},
		},
		aggregator: {
			{"disable-admission-plugins", "AlwaysAdmit,AlwaysDeny,MutatingAdmissionPolicy,MutatingAdmissionWebhook," +
				"OwnerReferencesPermissionEnforcement,ValidatingAdmissionPolicy,ValidatingAdmissionWebhook"},
		},
	} {
		if got := s.admission(to); !slices.Equal(got, want) {
			t.Errorf("%s gets %v, want %v", to, got, want)
		}
	}
	s.admissionControl = nil
	if got := s.admission(aggregator); got != nil {
		t.Errorf("without --admission-control got %v", got)
	}
}

func TestEveryFlagReachesAService(t *testing.T) {
	known := newCatalog()
	kubeFlags().VisitAll(func(flag *pflag.Flag) {
		if refusedFlags[flag.Name] != "" {
			return
		}
		// A name of a plugin that all services have, and for all other flags some value.
		given := []flagValue{{flag.Name, "AlwaysDeny"}}
		reached := false
		for _, to := range services {
			for _, routed := range known.route(to, given) {
				reached = true
				if !known.flags[to].Has(routed.name) {
					t.Errorf("%s gets --%s, which it does not have", to, routed.name)
				}
			}
		}
		if _, special := routes[flag.Name]; !reached && !special {
			t.Errorf("nobody gets --%s", flag.Name)
		}
	})
}

func TestExceptionsAreFlagsOfKubeAPIServer(t *testing.T) {
	flags := kubeFlags()
	for name := range routes {
		if flags.Lookup(name) == nil {
			t.Errorf("--%s in routes is no flag of kube-apiserver", name)
		}
	}
	for name := range refusedFlags {
		if flags.Lookup(name) == nil {
			t.Errorf("--%s in refusedFlags is no flag of kube-apiserver", name)
		}
	}
}

func TestFilesBesides(t *testing.T) {
	for path, want := range map[string]string{
		"/var/log/audit.log":      "/var/log/audit-core.log",
		"/var/log/audit":          "/var/log/audit-core",
		"/var/log.d/audit":        "/var/log.d/audit-core",
		"/var/log/.audit":         "/var/log/.audit-core",
		"audit.log":               "audit-core.log",
		"./a.b/audit.json.log":    "./a.b/audit.json-core.log",
		"@abstract.socket":        "@abstract-core.socket",
		"/run/kube-apiserver.sck": "/run/kube-apiserver-core.sck",
	} {
		assert.Equal(t, want, besides(path, "core"), "besides %s", path)
	}
}
