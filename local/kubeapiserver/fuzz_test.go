// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapiserver

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	genericoptions "k8s.io/apiserver/pkg/server/options"
)

// FuzzArguments routes the arguments of kube-apiserver, one in each line. Each service gets flags that it has, in the order in which they were
// given, and with the values that were given.
func FuzzArguments(f *testing.F) {
	for _, args := range []string{
		"--secure-port=1\n--etcd-servers=a,b\n--v=4", "--feature-gates=A=true\n--feature-gates=B=false", "--enable-admission-plugins=AlwaysDeny,Other,NodeRestriction",
		"--debug-socket-path=/a.b/c", "--anonymous-auth\n--profiling=false", "-v\n9\n--", "--audit-log-path=-\nx", "--tls-sni-cert-key=a,b:c",
	} {
		f.Add(args)
	}
	known := newCatalog()
	f.Fuzz(func(t *testing.T, lines string) {
		given, err := parse(kubeFlags(), strings.Split(lines, "\n"))
		if err != nil {
			return
		}
		_ = refuse(given) // both answers are possible
		s := &plan{given: given}
		for _, to := range services {
			routed := known.route(to, given)
			require.LessOrEqual(t, len(routed), len(given))
			rest := given
			for _, flag := range routed {
				require.True(t, known.flags[to].Has(flag.name), "%s gets --%s, which it does not have", to, flag.name)
				at := slices.IndexFunc(rest, func(g flagValue) bool { return g.name == flag.name })
				require.GreaterOrEqual(t, at, 0, "%s gets --%s, which was not given or comes in another order", to, flag.name)
				if _, special := routes[flag.name]; !special {
					require.Equal(t, rest[at].value, flag.value)
				}
				rest = rest[at+1:]
			}
			for i, argument := range s.arguments(to, known, genericoptions.CertKey{}, throughSocket("socket"))[:len(routed)] {
				require.Equal(t, routed[i].String(), argument)
			}
		}
	})
}
