// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
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
		Use:   "scale {SERVICE=N | SERVICE --replicas N}",
		Short: "Change the number of replicas of a service of a running instance",
		Long: `Change the number of replicas of a service of a running instance: core, extensions, aggregator or a --service of
` + "`tripod up`" + `. A new replica gets requests once it is ready. Surplus replicas stop one by one, the newest first. A replica stops when it gets no new requests and has finished the others. The
command returns when all is done. Ctrl-C stops at the number reached so far.

The instance keeps the number until it stops. ` + "`tripod up`" + ` has flags for the initial numbers.`,
		Example: `  tripod scale core --replicas 3
  tripod scale core=1
  tripod scale wardle=2`,
		Args:      cobra.ExactArgs(1),
		ValidArgs: []string{replicas.Core, replicas.Extensions, replicas.Aggregator},
		RunE: func(cmd *cobra.Command, args []string) error {
			service, wanted, err := parseScale(args[0], wanted, cmd.Flags().Changed("replicas"))
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not done within %s", timeout))
			defer cancel()
			began, out := time.Now(), cmd.OutOrStdout()
			err = up.Scale(ctx, up.DataDir(dataDir), service, wanted, func(line string) { fmt.Fprintln(out, line) })
			if err != nil && ctx.Err() != nil {
				err = fmt.Errorf("%w; `tripod status` shows the replicas", context.Cause(ctx))
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(out, "%s has %s after %s\n", service, plural(wanted, "replica"), process.Seconds(time.Since(began)))
			return err
		},
	}
	addDataDirFlag(cmd, &dataDir)
	cmd.Flags().IntVar(&wanted, "replicas", 0, "number of replicas")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "longest time to wait")
	return cmd
}

// parseScale reads SERVICE=N, or SERVICE beside the value of --replicas.
func parseScale(arg string, replicas int, given bool) (service string, n int, err error) {
	service, number, both := strings.Cut(arg, "=")
	if both == given {
		return "", 0, errors.New("say how many replicas: SERVICE=N, or SERVICE --replicas N")
	}
	if given {
		return service, replicas, nil
	}
	if n, err = strconv.Atoi(number); err != nil {
		return "", 0, fmt.Errorf("%q is not a number of replicas", number)
	}
	return service, n, nil
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
