// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
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
		Use:   "kubectl [--name NAME] ARGUMENTS",
		Short: "Run kubectl against the instance",
		Long: "Run kubectl, with the kubeconfig of the instance in $" + up.DataDirVariable +
			" or " + up.DefaultDataDirHelp + " unless $KUBECONFIG or --kubeconfig names another.\n\n" +
			"--name, before all other arguments, uses the instance of that name.",
		DisableFlagParsing: true,
		Run: func(_ *cobra.Command, args []string) {
			runKubectl(args)
		},
	}
}

// runKubectl is the whole of kubectl; it ends the process itself when it fails.
func runKubectl(args []string) {
	args, err := preferNamed(args)
	util.CheckErr(err)
	os.Args = append([]string{"kubectl"}, args...) // kubectl finds plugins and aliases by these
	util.CheckErr(preferInstance(args))
	if _, err := logs.GlogSetter(kubectl.GetLogVerbosity(os.Args)); err != nil {
		util.CheckErr(err)
	}
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}

// preferNamed makes the kubeconfig of the instance that --name names the default. It returns the arguments for kubectl. The flag
// comes first, because some commands of kubectl have a flag of that name.
func preferNamed(args []string) ([]string, error) {
	const flag = "--name"
	if len(args) == 0 {
		return args, nil
	}
	name, isNamed := strings.CutPrefix(args[0], flag+"=")
	rest := args[1:]
	if args[0] == flag {
		if len(rest) == 0 {
			return nil, errors.New("flag needs an argument: --name")
		}
		name, rest, isNamed = rest[0], rest[1:], true
	}
	if !isNamed {
		return args, nil
	}
	if slices.ContainsFunc(rest, namesKubeconfig) {
		return nil, errors.New("--name and --kubeconfig cannot both be given")
	}
	kubeconfig, err := kubeconfigNamed(name)
	if err != nil {
		return nil, err
	}
	return rest, os.Setenv(clientcmd.RecommendedConfigPathEnvVar, kubeconfig)
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
			if message = strings.TrimSuffix(message, "\n"); strings.Contains(message, noServer) {
				message = fmt.Sprintf("error: %v", noInstance(dataDir))
			}
			fmt.Fprintln(os.Stderr, message)
			os.Exit(code)
		})
	}
	return os.Setenv(clientcmd.RecommendedConfigPathEnvVar, kubeconfig)
}

func namesKubeconfig(arg string) bool {
	return arg == "--kubeconfig" || strings.HasPrefix(arg, "--kubeconfig=")
}
