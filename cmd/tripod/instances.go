// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tripod-k8s/tripod/local/process"
	"github.com/tripod-k8s/tripod/local/up"
)

func newListCommand() *cobra.Command {
	var format listFormat
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the instances on this machine",
		Long: `List the instances on this machine: the one without a name, and those that ` + "`tripod up --name`" + ` has made. Instances in other directories are not
listed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dirs, err := up.Instances()
			if err != nil {
				return err
			}
			instances := []up.Instance{}
			for _, dir := range dirs {
				instances = append(instances, up.Describe(cmd.Context(), dir))
			}
			return printList(cmd.OutOrStdout(), format, instances, func(i up.Instance) string { return i.Name }, printInstances)
		},
	}
	addListFormat(cmd, &format)
	return cmd
}

func printInstances(out io.Writer, instances []up.Instance) error {
	table := newTable(out, "NAME", "RUNNING", "PID", "READY", "VERSION", "SERVER", "DIRECTORY", "MESSAGE")
	for _, i := range instances {
		pid, ready := "-", "-"
		if i.Running {
			pid, ready = fmt.Sprint(i.PID), fmt.Sprintf("%d/%d", i.Ready, i.Processes)
		}
		row(table, i.Name, i.Running, pid, ready, orDash(i.Version), orDash(i.Server), i.DataDir, i.Message)
	}
	return table.Flush()
}

func orDash(value string) string {
	if value == "" {
		return "-"
	}
	return value
}

// addStopFlags adds the flags of commands that stop an instance.
func addStopFlags(cmd *cobra.Command, dataDir *string, timeout *time.Duration) {
	addDataDirFlag(cmd, dataDir)
	cmd.Flags().DurationVar(timeout, "timeout", 2*time.Minute, "longest time to wait until it has stopped")
}

func newDownCommand() *cobra.Command {
	var dataDir string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop an instance; its data stays",
		Long: `Stop an instance, and return when all its processes have ended. Its data stays, and the next ` + "`tripod up`" + ` continues with it. An instance that does not run is no
error.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return stopInstance(cmd, up.DataDir(dataDir), timeout)
		},
	}
	addStopFlags(cmd, &dataDir, &timeout)
	return cmd
}

// stopInstance stops an instance, and says so.
func stopInstance(cmd *cobra.Command, dataDir up.DataDir, timeout time.Duration) error {
	ctx, stop := untilSignal(cmd.Context())
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not done within %s", timeout))
	defer cancel()
	began, out := time.Now(), cmd.OutOrStdout()
	stopped, err := up.Stop(ctx, dataDir, func(pid int) {
		fmt.Fprintf(out, "Stopping the instance in %s (pid %d)\n", dataDir, pid)
	})
	if err != nil {
		return err
	}
	if !stopped {
		_, err = fmt.Fprintf(out, "No instance runs in %s\n", dataDir)
		return err
	}
	_, err = fmt.Fprintf(out, "Stopped after %s; its data stays\n", process.Seconds(time.Since(began)))
	return err
}

func newDeleteCommand() *cobra.Command {
	var dataDir string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "delete",
		Short: "Stop an instance, and delete its data",
		Long: `Stop an instance, and delete everything that it has made: its data, its certificates, its logs, and its context in your own kubeconfig. What else is in its
directory stays.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir := up.DataDir(dataDir)
			if err := up.Find(dir); err != nil {
				return err
			}
			if err := stopInstance(cmd, dir, timeout); err != nil {
				return err
			}
			if _, err := up.Unmerge(dir); err != nil {
				return err
			}
			others, err := up.Delete(dir)
			if err != nil {
				return err
			}
			if len(others) > 0 {
				fmt.Fprintf(cmd.OutOrStdout(), "Left in %s: %s\n", dir, strings.Join(others, ", "))
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "Deleted the instance in %s\n", dir)
			return err
		},
	}
	addStopFlags(cmd, &dataDir, &timeout)
	return cmd
}

func newLogsCommand() *cobra.Command {
	var dataDir string
	var follow bool
	var last int
	cmd := &cobra.Command{
		Use:   "logs [REPLICA...]",
		Short: "Show the logs of an instance",
		Long: `Show the logs of replicas, such as core-0, or of all replicas. "up" is the log of ` + "`tripod up -d`" + ` itself. With more than one log, each line begins with its
name.`,
		Example: `  tripod logs -f core-0
  tripod logs --tail 5`,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := up.DataDir(dataDir)
			if len(args) == 0 {
				var err error
				if args, err = up.Logs(dir); err != nil {
					return err
				}
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			err := up.ReadLogs(ctx, dir, args, last, follow, printLines(cmd.OutOrStdout(), args))
			if follow && errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		},
	}
	addDataDirFlag(cmd, &dataDir)
	cmd.ValidArgsFunction = completeLogs(&dataDir)
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with new lines, until Ctrl-C")
	cmd.Flags().IntVar(&last, "tail", -1, "number of lines of each log to begin with; -1 means all")
	return cmd
}

// printLines returns a function that prints lines, with the name of their log if there are several.
func printLines(out io.Writer, logs []string) func(up.LogLine) {
	width := 0
	for _, name := range logs {
		width = max(width, len(name))
	}
	return func(line up.LogLine) {
		if len(logs) > 1 {
			fmt.Fprintf(out, "%-*s | ", width, line.Log)
		}
		fmt.Fprintln(out, line.Text)
	}
}
