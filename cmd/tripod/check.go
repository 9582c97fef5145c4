// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tripod-k8s/tripod/admin/check"
	"github.com/tripod-k8s/tripod/local/up"
)

func newCheckCommand() *cobra.Command {
	var kubeconfig, server, namespace, format string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check that the API works",
		Long: `Create, read, change, watch and delete an object of a built-in kind and a custom resource, which the check defines first.
The check deletes everything that it made, also when it fails. It warns of services that are configured differently, and of
nodes whose kubelets are too old. It fails if kubelets are newer than the API server.

The instance is the one in $` + up.DataDirVariable + ` or ` + up.DefaultDataDirHelp + ` unless $KUBECONFIG or --kubeconfig names another.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(format, formatText); err != nil {
				return err
			}
			config, err := checkedConfig(kubeconfig, server)
			if err != nil {
				return err
			}
			client, err := dynamic.NewForConfig(config)
			if err != nil {
				return err
			}
			health, err := check.HealthOf(config)
			if err != nil {
				return err
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("the check took longer than %s", timeout))
			defer cancel()
			return report(cmd.OutOrStdout(), format, func(step func(check.Step)) error {
				check := check.Check{
					Client: client, Namespace: namespace, Name: "tripod-check-" + utilrand.String(8), Report: step, Health: health,
				}
				return check.Run(ctx)
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the API to check")
	addKubeconfigName(cmd, &kubeconfig)
	fs.StringVar(&server, "server", "", "URL of the API, instead of the one in the kubeconfig")
	fs.StringVarP(&format, "output", "o", formatText, "format of the output: text, a line for each step, or json, an object at the end")
	fs.StringVarP(&namespace, "namespace", "n", "default", "namespace of the objects")
	fs.DurationVar(&timeout, "timeout", time.Minute, "longest time for the whole check")
	return cmd
}

// checked is what a check prints as JSON.
type checked struct {
	// OK says that the API works, whatever the warnings are.
	OK       bool         `json:"ok"`
	Steps    []check.Step `json:"steps"`
	Warnings []string     `json:"warnings"`
	// Error says what does not work.
	Error string `json:"error,omitempty"`
}

// report prints what a check does: each step for people, and one object for programs, also if the check fails.
func report(out io.Writer, format string, run func(step func(check.Step)) error) error {
	if format != formatJSON {
		return run(func(s check.Step) { fmt.Fprintf(out, "%-9s %s\n", s.Done, s.What) })
	}
	result := checked{Steps: []check.Step{}, Warnings: []string{}} // empty lists, not null
	err := run(func(s check.Step) {
		if s.Done == check.Warning {
			result.Warnings = append(result.Warnings, s.What)
			return
		}
		result.Steps = append(result.Steps, s)
	})
	if result.OK = err == nil; err != nil {
		result.Error = err.Error()
	}
	return errors.Join(err, printJSON(out, result))
}

// addKubeconfigName adds the flag --name, which stands for the kubeconfig of an instance.
func addKubeconfigName(cmd *cobra.Command, kubeconfig *string) {
	const byName = "name"
	cmd.Flags().Var(&kubeconfigFlag{kubeconfig}, byName, "name of an instance, instead of its kubeconfig")
	cmd.MarkFlagsMutuallyExclusive(byName, "kubeconfig")
	_ = cmd.RegisterFlagCompletionFunc(byName, completeInstances) // the flag is there
}

// kubeconfigFlag sets a kubeconfig by the name of an instance.
type kubeconfigFlag struct{ kubeconfig *string }

func (f *kubeconfigFlag) String() string { return "" }
func (f *kubeconfigFlag) Type() string   { return "string" }

func (f *kubeconfigFlag) Set(name string) (err error) {
	*f.kubeconfig, err = kubeconfigNamed(name)
	return err
}

// kubeconfigNamed returns the kubeconfig of a named instance.
func kubeconfigNamed(name string) (string, error) {
	dir, err := up.DataDirNamed(name)
	if err != nil {
		return "", err
	}
	kubeconfig, err := dir.TrustedKubeconfig()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(kubeconfig); err != nil {
		return "", noInstance(dir)
	}
	return kubeconfig, nil
}

// noInstance says that there is no instance in a directory, and how to get one.
func noInstance(dir up.DataDir) error {
	return fmt.Errorf("there is no instance of Tripod in %s: start one with `tripod up`, or name a kubeconfig; `tripod list` shows those "+
		"that there are", dir)
}

func checkedConfig(kubeconfig, server string) (_ *rest.Config, err error) {
	if kubeconfig == "" && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		if kubeconfig, err = up.DataDir(up.DefaultDataDir()).TrustedKubeconfig(); err != nil {
			return nil, err
		}
		sayEarlierInstance(os.Stderr)
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	overrides := &clientcmd.ConfigOverrides{}
	overrides.ClusterInfo.Server = server
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	if errors.Is(err, os.ErrNotExist) || clientcmd.IsEmptyConfig(err) {
		return nil, fmt.Errorf("there is no instance: start one with `tripod up`, or name a kubeconfig: %w", err)
	}
	return config, err
}
