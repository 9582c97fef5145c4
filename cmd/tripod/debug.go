// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/tripod-k8s/tripod/admin/collect"
	"github.com/tripod-k8s/tripod/base/service"
	"github.com/tripod-k8s/tripod/local/up"
)

func newDebugCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "debug",
		Short: "Collect what says how an instance is",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newDebugCollectCommand())
	return cmd
}

// collection has the flags of `tripod debug collect`.
type collection struct {
	connection
	dataDir, release, format string
	staticPods               bool
	node                     collect.Node
	options                  collect.Options
	maxMiB, maxLogMiB        int64
	timeout                  time.Duration
}

func newDebugCollectCommand() *cobra.Command {
	var o collection
	cmd := &cobra.Command{
		Use:   "collect [FILE]",
		Short: "Write an archive without secrets: versions, states, metrics, logs, profiles and configuration",
		Long: `Write an archive (tar.gz) that helps others to understand a problem: versions, health, states, metrics, flags, logs, and profiles
of memory and goroutines, of an instance of tripod up, of a Helm release (--release), or of the static pods of this node (--static-pods).

The archive has no secrets: values and flags that may be secrets are replaced, and so are private keys, tokens and the values of all Secrets
that you may read, wherever a log has them. It does have names of objects, users and hosts. Read it before you publish it.

What cannot be collected is named on standard error and in summary.json. Without FILE, the name is tripod-debug-TIME.tar.gz.`,
		Example: `  tripod debug collect
  tripod debug collect --release tripod --namespace tripod problem.tar.gz
  tripod debug collect --static-pods                 # as root, on a control-plane node`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFormat(o.format, formatText); err != nil {
				return err
			}
			o.options.File = "tripod-debug-" + time.Now().UTC().Format("20060102T150405Z") + ".tar.gz"
			if len(args) > 0 {
				o.options.File = args[0]
			}
			return o.collect(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	addDataDirFlag(cmd, &o.dataDir)
	fs := cmd.Flags()
	fs.StringVar(&o.release, "release", "", "name of a Helm release")
	fs.StringVarP(&o.namespace, "namespace", "n", "", "namespace of the release; empty means that of the context")
	fs.BoolVar(&o.staticPods, "static-pods", false, "collect from the static pods of this node")
	fs.StringVar(&o.node.Manifests, "manifests", "/etc/kubernetes/manifests", "directory with the static pods")
	fs.StringVar(&o.node.Logs, "pod-logs", "/var/log/pods", "directory with the logs of pods on this node")
	fs.StringVar(&o.node.PKI, "pki", "/etc/kubernetes/pki", "directory with the keys of the static pods, which must not be in the archive")
	fs.StringVar(&o.kubeconfig, "kubeconfig", "",
		"with --release, kubeconfig of the cluster that the release runs in; with --static-pods, that of an administrator, by default "+
			collect.AdminConf)
	fs.StringVar(&o.context, "context", "", "context of that kubeconfig; empty means the current one")
	fs.Int64Var(&o.maxMiB, "max-mib", 256, "largest size of all files before compression, in MiB")
	fs.Int64Var(&o.maxLogMiB, "max-log-mib", 4, "size of the end of each log, in MiB")
	fs.DurationVar(&o.timeout, "timeout", 5*time.Minute, "how long to collect")
	fs.StringVarP(&o.format, "output", "o", formatText, "format of the summary: text or json")
	cmd.MarkFlagsMutuallyExclusive("release", "static-pods", "data-dir")
	cmd.MarkFlagsMutuallyExclusive("release", "static-pods", "name")
	_ = cmd.RegisterFlagCompletionFunc("context", completeContexts) // the flag is there
	_ = cmd.RegisterFlagCompletionFunc("release", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return o.completeReleases(cmd, nil, "")
	})
	return cmd
}

func (o *collection) collect(ctx context.Context, out, news io.Writer) error {
	if o.maxMiB <= 0 || o.maxLogMiB <= 0 || o.timeout <= 0 {
		return errors.New("--max-mib, --max-log-mib and --timeout must be positive")
	}
	utilruntime.ErrorHandlers = nil // the archive says what happens
	o.options.MaxBytes, o.options.MaxLogBytes, o.options.Progress = o.maxMiB<<20, o.maxLogMiB<<20, progressTo(news)
	signalled, stop := untilSignal(ctx)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(signalled, o.timeout, fmt.Errorf("not done within %s", o.timeout))
	defer cancel()
	sources, err := o.sources(ctx)
	if err != nil {
		return err
	}
	summary, err := collect.Collect(ctx, o.options, func() bool { return signalled.Err() != nil }, sources...)
	if err != nil {
		return err
	}
	if o.format == formatJSON {
		return printJSON(out, summary)
	}
	_, err = fmt.Fprintf(out, "%s written: %d files, %s, %d problems. Read it before you publish it\n",
		summary.File, len(summary.Entries), mebibytes(summary.Bytes), len(summary.Problems))
	return err
}

// sources returns where to collect, or an error if the instance does not exist.
func (o *collection) sources(ctx context.Context) ([]collect.Source, error) {
	own := &collect.Files{Values: map[string]func(context.Context) (any, error){
		"tripod.json": func(context.Context) (any, error) { return map[string]string{"version": service.Version}, nil },
	}}
	switch {
	case o.release != "":
		config, client, namespace, err := o.host()
		if err != nil {
			return nil, err
		}
		release := &collect.Release{Config: config, Client: client, Namespace: namespace, Name: o.release}
		return []collect.Source{own, release}, release.Find(ctx)
	case o.staticPods:
		o.node.Kubeconfig, o.node.Context = o.kubeconfig, o.context
		sources, err := o.node.Sources()
		return append([]collect.Source{own}, sources...), err
	}
	files, err := up.Files(up.DataDir(o.dataDir))
	if err != nil {
		return nil, err
	}
	kubeconfig, err := up.DataDir(o.dataDir).TrustedKubeconfig()
	if err != nil {
		return nil, err
	}
	return []collect.Source{own, files, collect.APIOf(kubeconfig, "")}, nil
}
