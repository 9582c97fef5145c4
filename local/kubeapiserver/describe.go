// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapiserver

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	genericoptions "k8s.io/apiserver/pkg/server/options"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/component-base/logs"
	"k8s.io/component-base/version/verflag"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// services are the processes that together are kube-apiserver, in the order in which they start and [FlagDescription] has them.
var services = []serviceName{core, extensions, aggregator}

// FlagDescription says what Tripod does with a flag of kube-apiserver. docs/flags.md lists all of them.
type FlagDescription struct {
	// Section is the section of kube-apiserver's help.
	Section, Name string
	// Core, Extensions and Aggregator are what each service gets: "yes" for the flag as it is, "own" for a part of it or a value of its
	// own, "derived" for what follows from it, and "" for nothing.
	Core, Extensions, Aggregator string
	// Note explains a flag that does not simply go to each service that has it.
	Note string
	// Refused is why Tripod does not start with this flag. It is empty if Tripod does.
	Refused string
}

// DescribeFlags describes all flags of kube-apiserver, in the order of its help text.
func DescribeFlags() []FlagDescription {
	known := newCatalog()
	derived := (&plan{}).derivedFlags(known)
	var all []FlagDescription
	sets := sections()
	for _, section := range sets.Order {
		sets.FlagSets[section].VisitAll(func(flag *pflag.Flag) {
			if flag.Name == "help" {
				return
			}
			description := FlagDescription{Section: section, Name: flag.Name, Note: notes[flag.Name], Refused: refusedFlags[flag.Name]}
			if description.Refused == "" {
				shares := make([]string, len(services))
				for i, to := range services {
					shares[i] = known.share(to, flag.Name, derived[to])
				}
				description.Core, description.Extensions, description.Aggregator = shares[0], shares[1], shares[2]
			}
			all = append(all, description)
		})
	}
	return all
}

// RefusedGates returns the feature gates that Tripod refuses, and why.
func RefusedGates() map[string]string {
	gates := make(map[string]string, len(refusedGates))
	for gate, why := range refusedGates {
		gates[string(gate)] = why
	}
	return gates
}

// notes say what the table cannot: what happens to flags with a rule of their own in routes.
var notes = map[string]string{
	"bind-address":                     "the public endpoint; the others serve on loopback",
	"secure-port":                      "the public endpoint; core advertises this port",
	"permit-address-sharing":           "the public endpoint",
	"permit-port-sharing":              "the public endpoint",
	"tls-sni-cert-key":                 "the public endpoint",
	"tls-cipher-suites":                "the public endpoint",
	"tls-curve-preferences":            "the public endpoint",
	"tls-min-version":                  "the public endpoint",
	"disable-http2-serving":            "the public endpoint; services speak HTTP/2 to each other all the same",
	"http2-max-streams-per-connection": "the public endpoint",

	"cert-dir":             "where a certificate is made if none is given",
	"tls-cert-file":        "the one that was given, or the one in --cert-dir",
	"tls-private-key-file": "the one that was given, or the one in --cert-dir",

	"proxy-client-cert-file": "it alone calls aggregated API servers",
	"proxy-client-key-file":  "as --proxy-client-cert-file",

	"cors-allowed-origins":                    "where the client is",
	"strict-transport-security-directives":    "where the client is",
	"goaway-chance":                           "where the client is",
	"shutdown-delay-duration":                 "the aggregator stops first; the others when it has",
	"shutdown-send-retry-after":               "as --shutdown-delay-duration",
	"shutdown-watch-termination-grace-period": "as --shutdown-delay-duration",

	"advertise-address": "the address that kube-apiserver would advertise",

	"max-requests-inflight":          "core gets two thirds, extensions the rest; the aggregator has the whole for what it serves itself",
	"max-mutating-requests-inflight": "as --max-requests-inflight",

	"audit-log-path":      "`tripod kube-apiserver` itself writes the file, for all services",
	"audit-log-maxage":    "as --audit-log-path",
	"audit-log-maxbackup": "as --audit-log-path",
	"audit-log-maxsize":   "as --audit-log-path",
	"audit-log-compress":  "as --audit-log-path",

	"debug-socket-path": "extensions and the aggregator listen beside it",

	"enable-admission-plugins": "extensions gets those of the plugins that also decide about custom resources, " +
		"and the aggregator those that also decide about APIServices",
	"disable-admission-plugins": "as --enable-admission-plugins",
	"admission-control":         "for the others it is translated into the two flags that took its place",
}

// sections are kube-apiserver's flags as its help has them.
func sections() cliflag.NamedFlagSets {
	sets := options.NewServerRunOptions().Flags()
	global := sets.FlagSet("global")
	verflag.AddFlags(global)
	globalflag.AddGlobalFlags(global, Name, logs.SkipLoggingConfigurationFlags())
	return sets
}

// derivedFlags returns the names of the flags that each service gets without having been given.
func (s *plan) derivedFlags(known *catalog) map[serviceName][]string {
	derived := map[serviceName][]string{}
	for _, to := range services {
		for _, arg := range s.arguments(to, known, genericoptions.CertKey{}, nil) {
			name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
			derived[to] = append(derived[to], name)
		}
	}
	return derived
}

// share says what a service gets of a flag: all, a part or something of its own, or what is derived from it.
func (c *catalog) share(to serviceName, name string, derived []string) string {
	// A path with a name in it, and two plugins of which extensions and the aggregator have one.
	const path, plugins = "/var/log/x.log", "AlwaysDeny,NodeRestriction"
	for _, value := range []string{path, plugins} {
		given := flagValue{name, value}
		got := c.route(to, []flagValue{given})
		if len(got) == 1 && got[0] != given {
			return "own"
		}
		if len(got) == 1 && value == plugins {
			return "yes"
		}
	}
	if routes[name] != nil && slices.Contains(derived, name) {
		return "derived"
	}
	return ""
}
