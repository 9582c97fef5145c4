// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tripod-k8s/tripod/local/up"
)

// FuzzKubectlArguments has kubectl take any arguments, one a line. It uses the kubeconfig that they name, or that of the instance, or none, and never
// the user's own.
func FuzzKubectlArguments(f *testing.F) {
	for _, args := range []string{
		"get\npods", "--kubeconfig\n/other\nget", "get\n--kubeconfig=/other", "get\n--kubeconfig=", "get\n-n\n--kubeconfig\npods",
		"exec\npod\n--\nrun\n--kubeconfig=/other", "get\n--context\n--\n--kubeconfig\n/other", "--kubeconfig", "get\n-s=a\n--\n--kubeconfig=",
	} {
		f.Add(args)
	}
	f.Fuzz(func(t *testing.T, lines string) {
		args := strings.Split(lines, "\n")
		dir := t.TempDir()
		ours := filepath.Join(dir, "kubeconfig")
		require.NoError(t, os.WriteFile(ours, nil, 0o600))
		t.Setenv(up.DataDirVariable, dir)
		t.Setenv("KUBECONFIG", "")
		require.NoError(t, preferInstance(args))

		// As kubectl reads them, before it knows the command.
		flags := pflag.NewFlagSet("kubectl", pflag.ContinueOnError)
		flags.ParseErrorsAllowlist.UnknownFlags = true
		config := genericclioptions.NewConfigFlags(true)
		config.AddFlags(flags)
		if flags.Parse(args) != nil {
			return
		}
		rules := clientcmd.NewDefaultClientConfigLoadingRules()
		rules.ExplicitPath = *config.KubeConfig
		used := rules.GetLoadingPrecedence()
		require.Len(t, used, 1)
		if *config.KubeConfig != "" {
			require.Equal(t, *config.KubeConfig, used[0])
			return
		}
		require.Contains(t, []string{ours, os.DevNull}, used[0])
	})
}
