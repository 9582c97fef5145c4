// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tripod-k8s/tripod/local/process"
	"github.com/tripod-k8s/tripod/local/replicas"
	"github.com/tripod-k8s/tripod/local/up"
)

func newScaleCommand() *cobra.Command {
	var dataDir string
	var wanted int
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "scale {core|extensions|aggregator} --replicas N",
		Short: "Change the number of replicas of a service of a running instance",
		Long: `Change the number of replicas of a service of a running instance. A new replica gets requests once it is ready. Surplus
replicas stop one by one, the newest first. A replica stops when it gets no new requests and has finished the others. The
command returns when all is done. Ctrl-C stops at the number reached so far.

The instance keeps the number until it stops. ` + "`tripod up`" + ` has flags for the initial numbers.`,
		Example: `  tripod scale core --replicas 3
  tripod scale core --replicas 1`,
		Args:      cobra.MatchAll(cobra.ExactArgs(1), onlyServices),
		ValidArgs: scalable,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not done within %s", timeout))
			defer cancel()
			began, out := time.Now(), cmd.OutOrStdout()
			err := up.Scale(ctx, up.DataDir(dataDir), args[0], wanted, func(line string) { fmt.Fprintln(out, line) })
			if err != nil && ctx.Err() != nil {
				err = fmt.Errorf("%w; `tripod status` shows the replicas", context.Cause(ctx))
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(out, "%s has %s after %s\n", args[0], plural(wanted, "replica"), process.Seconds(time.Since(began)))
			return err
		},
	}
	addDataDirFlag(cmd, &dataDir)
	cmd.Flags().IntVar(&wanted, "replicas", 0, "number of replicas")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "longest time to wait")
	if err := cmd.MarkFlagRequired("replicas"); err != nil {
		panic(err) // there is no such flag
	}
	return cmd
}

// scalable are the services whose number of replicas can change.
var scalable = []string{replicas.Core, replicas.Extensions, replicas.Aggregator}

func onlyServices(_ *cobra.Command, args []string) error {
	if !slices.Contains(scalable, args[0]) {
		return fmt.Errorf("there is no service %q: the services are %s", args[0], strings.Join(scalable, ", "))
	}
	return nil
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
