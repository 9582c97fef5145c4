// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/tripod-k8s/tripod/internal/policy"
)

func TestAnonymousIsOffWhereEverythingIsAllowed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "authentication.yaml")
	content := "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\nanonymous: {enabled: true}\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args []string
		want bool
	}{
		{nil, false},
		{[]string{"--authorization-mode=RBAC"}, true},
		{[]string{"--authorization-mode=RBAC", "--anonymous-auth=false"}, false},
		{[]string{"--authorization-mode=AlwaysAllow"}, false},
		{[]string{"--authorization-mode=RBAC,AlwaysAllow", "--anonymous-auth=true"}, false},
		// As kube-apiserver: a file is not overruled.
		{[]string{"--authorization-mode=AlwaysAllow", "--authentication-config=" + file}, true},
	} {
		t.Run(strings.Join(tc.args, " "), func(t *testing.T) {
			authentication, authorization := NewAuthenticationOptions(), policy.NewOptions()
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			authentication.AddFlags(flags)
			authorization.AddFlags(flags)
			if err := flags.Parse(tc.args); err != nil {
				t.Fatal(err)
			}
			authorization.Complete()
			authentication.applyAuthorization(authorization)
			config, err := authentication.Anonymous()
			if err != nil {
				t.Fatal(err)
			}
			if config.Enabled != tc.want {
				t.Errorf("anonymous is %v, want %v", config.Enabled, tc.want)
			}
		})
	}
}
