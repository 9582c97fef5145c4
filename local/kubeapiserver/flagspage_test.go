// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapiserver

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/component-base/logs"
	"k8s.io/component-base/version/verflag"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

const (
	flagsPage  = "../../docs/flags.md"
	beginFlags = "<!-- begin of the flags, written by go test ./local/kubeapiserver -run Page -update -->\n"
	endFlags   = "<!-- end of the flags -->\n"
)

var update = flag.Bool("update", false, "write the flags to "+flagsPage)

// notes say what the table cannot: what becomes of flags that have a rule of their own in routes.
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

	"enable-admission-plugins":  "extensions gets those of the plugins that also decide about custom resources, and the aggregator those that also decide about APIServices",
	"disable-admission-plugins": "as --enable-admission-plugins",
	"admission-control":         "for the others it is translated into the two flags that took its place",
}

func TestThePageListsTheFlags(t *testing.T) {
	content, err := os.ReadFile(flagsPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(content), beginFlags)
	listed, after, ok2 := strings.Cut(rest, endFlags)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the flags:\n%s%s", flagsPage, beginFlags, endFlags)
	}
	want := flagsTable(t)
	if listed == want {
		return
	}
	if !*update {
		t.Fatalf("%s does not list the flags as they are; run go test ./local/kubeapiserver -run Page -update. They are\n%s", flagsPage, want)
	}
	if err := os.WriteFile(flagsPage, []byte(before+beginFlags+want+endFlags+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestEveryRuleHasANote(t *testing.T) {
	for name := range routes {
		if notes[name] == "" {
			t.Errorf("nothing is said of --%s, which has a rule of its own", name)
		}
	}
	for name := range notes {
		if routes[name] == nil {
			t.Errorf("a note is about --%s, which goes to whoever has it", name)
		}
	}
}

// sections are kube-apiserver's flags as its help has them.
func sections() cliflag.NamedFlagSets {
	sets := options.NewServerRunOptions().Flags()
	global := sets.FlagSet("global")
	verflag.AddFlags(global)
	globalflag.AddGlobalFlags(global, Name, logs.SkipLoggingConfigurationFlags())
	return sets
}

// flagsTable renders which service gets which flag.
func flagsTable(t *testing.T) string {
	known := newCatalog()
	planned := argumentsOf(t, nil, nil)
	var b strings.Builder
	sets := sections()
	for _, section := range sets.Order {
		if !sets.FlagSets[section].HasFlags() {
			continue
		}
		fmt.Fprintf(&b, "\n### %s%s\n\n", strings.ToUpper(section[:1]), section[1:])
		b.WriteString("| flag | core | extensions | aggregator | |\n|---|---|---|---|---|\n")
		sets.FlagSets[section].VisitAll(func(flag *pflag.Flag) {
			if flag.Name == "help" {
				return
			}
			row := []string{"`--" + flag.Name + "`"}
			for _, to := range services {
				row = append(row, cell(known, to, flag.Name, planned[to]))
			}
			note := notes[flag.Name]
			if why := refusedFlags[flag.Name]; why != "" {
				row, note = []string{row[0], "", "", ""}, "**refused**: "+why
			}
			fmt.Fprintf(&b, "| %s | %s |\n", strings.Join(row, " | "), note)
		})
	}
	b.WriteString("\n### Feature gates that are refused\n\n| gate | |\n|---|---|\n")
	for _, gate := range slices.Sorted(maps.Keys(refusedGates)) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", gate, refusedGates[gate])
	}
	return b.String()
}

// cell says what a service gets of a flag: all, a part or something of its own, or what the drop-in derives from it.
func cell(known *catalog, to serviceName, name string, planned []string) string {
	// A path with a name in it, and two plugins of which extensions and the aggregator have one.
	const path, plugins = "/var/log/x.log", "AlwaysDeny,NodeRestriction"
	for _, value := range []string{path, plugins} {
		given := flagValue{name, value}
		got := known.route(to, []flagValue{given})
		if len(got) == 1 && got[0] != given {
			return "own"
		}
		if len(got) == 1 && value == plugins {
			return "yes"
		}
	}
	if routes[name] != nil && slices.ContainsFunc(planned, func(arg string) bool { return strings.HasPrefix(arg, "--"+name+"=") }) {
		return "derived"
	}
	return ""
}
