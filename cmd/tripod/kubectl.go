// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubectl's ways to authenticate
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"

	"github.com/tripod-k8s/tripod/local/up"
)

// noServer is the address that kubectl uses if it knows no server.
const noServer = "localhost:8080"

func newKubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl",
		Short: "Run kubectl against the instance",
		Long: "Run kubectl, with the kubeconfig of the instance in $" + up.DataDirVariable +
			" or " + up.DefaultDataDirHelp + " unless $KUBECONFIG or --kubeconfig names another.",
		DisableFlagParsing: true,
		Run: func(_ *cobra.Command, args []string) {
			runKubectl(args)
		},
	}
}

// runKubectl is the whole of kubectl; it ends the process itself when it fails.
func runKubectl(args []string) {
	os.Args = append([]string{"kubectl"}, args...) // kubectl finds plugins and aliases by these
	util.CheckErr(preferInstance(args))
	if _, err := logs.GlogSetter(kubectl.GetLogVerbosity(os.Args)); err != nil {
		util.CheckErr(err)
	}
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}

// preferInstance makes the kubeconfig of the instance the default, even if there is no instance. Then a command fails, and
// does not reach the cluster that the user's own kubeconfig happens to name. With --kubeconfig there is no default.
func preferInstance(args []string) error {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	if os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "" {
		return nil
	}
	dataDir := up.DataDir(up.DefaultDataDir())
	kubeconfig, err := dataDir.TrustedKubeconfig()
	if slices.ContainsFunc(args, namesKubeconfig) {
		// The flag may be empty, or be the value of another flag. Then the command fails as well.
		return os.Setenv(clientcmd.RecommendedConfigPathEnvVar, os.DevNull)
	}
	if err != nil {
		return err
	}
	sayEarlierInstance(os.Stderr)
	if _, err := os.Stat(kubeconfig); err != nil {
		utilruntime.ErrorHandlers = nil // the message below says it better
		util.BehaviorOnFatal(func(message string, code int) {
			fmt.Fprintln(os.Stderr, strings.TrimSuffix(message, "\n"))
			if strings.Contains(message, noServer) {
				fmt.Fprintf(os.Stderr, "There is no instance of Tripod in %s: start one with `tripod up`, or set KUBECONFIG.\n", dataDir)
			}
			os.Exit(code)
		})
	}
	return os.Setenv(clientcmd.RecommendedConfigPathEnvVar, kubeconfig)
}

func namesKubeconfig(arg string) bool {
	return arg == "--kubeconfig" || strings.HasPrefix(arg, "--kubeconfig=")
}
