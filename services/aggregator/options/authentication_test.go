// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/services/shared/policy"
)

func TestAnonymousIsOffWhereEverythingIsAllowed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "authentication.yaml")
	content := "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\nanonymous: {enabled: true}\n"
	require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
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
			require.NoError(t, flags.Parse(tc.args))
			authorization.Complete()
			authentication.applyAuthorization(authorization)
			config, err := authentication.Anonymous()
			require.NoError(t, err)
			assert.Equal(t, tc.want, config.Enabled, "anonymous")
		})
	}
}
