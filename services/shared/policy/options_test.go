// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"
)

func stockFlags() (*kubeoptions.BuiltInAuthorizationOptions, *pflag.FlagSet) {
	o := kubeoptions.NewBuiltInAuthorizationOptions()
	flags := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	o.AddFlags(flags)
	return o, flags
}

func ownFlags() (*Options, *pflag.FlagSet) {
	o := NewOptions()
	flags := pflag.NewFlagSet("tripod", pflag.ContinueOnError)
	o.AddFlags(flags)
	return o, flags
}

func TestFlagsAreThoseOfKubeAPIServer(t *testing.T) {
	_, stock := stockFlags()
	_, own := ownFlags()
	stock.VisitAll(func(want *pflag.Flag) {
		got := own.Lookup(want.Name)
		if got == nil {
			t.Errorf("--%s is missing", want.Name)
			return
		}
		if got.DefValue != want.DefValue || got.Value.Type() != want.Value.Type() {
			t.Errorf("--%s is a %s with default %q, want %s, %q", want.Name, got.Value.Type(), got.DefValue, want.Value.Type(), want.DefValue)
		}
	})
	own.VisitAll(func(flag *pflag.Flag) {
		if stock.Lookup(flag.Name) == nil {
			t.Errorf("--%s is no flag of kube-apiserver", flag.Name)
		}
	})
}

const configuration = `apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
`

func writeFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.yaml")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestOptionsMeanWhatTheyMeanToKubeAPIServer(t *testing.T) {
	file := writeFile(t, configuration+"- {type: Node, name: node}\n- {type: RBAC, name: rbac}\n")
	wrongName := writeFile(t, configuration+"- {type: RBAC, name: other}\n")
	wrongType := writeFile(t, configuration+"- {type: Magic, name: magic}\n")
	for _, args := range [][]string{
		{},
		{"--authorization-mode="},
		{"--authorization-mode=Node,RBAC"},
		{"--authorization-mode=Node", "--authorization-mode=RBAC"},
		{"--authorization-mode=RBAC,RBAC"},
		{"--authorization-mode=rbac"},
		{"--authorization-mode=AlwaysAllow,AlwaysDeny"},
		{"--authorization-mode=ABAC"},
		{"--authorization-mode=ABAC", "--authorization-policy-file=p"},
		{"--authorization-policy-file=p"},
		{"--authorization-mode=Webhook"},
		{"--authorization-mode=Webhook,RBAC", "--authorization-webhook-config-file=w"},
		{"--authorization-mode=RBAC", "--authorization-webhook-config-file=w"},
		{
			"--authorization-mode=Webhook", "--authorization-webhook-config-file=w", "--authorization-webhook-version=v1",
			"--authorization-webhook-cache-authorized-ttl=0", "--authorization-webhook-cache-unauthorized-ttl=1s",
		},
		{"--authorization-config=" + file},
		{"--authorization-config=" + file, "--authorization-policy-file=p"},
		{"--authorization-config=" + file, "--authorization-mode=RBAC"},
		{"--authorization-config=" + file, "--authorization-webhook-cache-authorized-ttl=1s"},
		{"--authorization-config=" + wrongName},
		{"--authorization-config=" + wrongType},
		{"--authorization-config=" + file + "-that-is-not-there"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			stock, stockFlags := stockFlags()
			own, ownFlags := ownFlags()
			require.NoError(t, stockFlags.Parse(args))
			require.NoError(t, ownFlags.Parse(args))
			require.Empty(t, stock.Complete())
			own.Complete()
			want, got := stock.Validate(), own.Validate()
			require.Equal(t, texts(want), texts(got), "errors")
			if len(want) > 0 {
				return
			}
			wantConfig, err := stock.ToAuthorizationConfig(nil)
			require.NoError(t, err)
			gotConfig, err := own.authorizerConfig()
			require.NoError(t, err)
			if !reflect.DeepEqual(gotConfig, wantConfig) {
				t.Errorf("config is\n%#v\nwant\n%#v", gotConfig, wantConfig)
			}
		})
	}
}

func texts(errs []error) string {
	var lines []string
	for _, err := range errs {
		lines = append(lines, err.Error())
	}
	return strings.Join(lines, "\n")
}
