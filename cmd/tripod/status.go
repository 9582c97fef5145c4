// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/tripod-k8s/tripod/local/up"
)

// Formats of output.
const (
	formatTable = "table"
	formatJSON  = "json"
)

func newStatusCommand() *cobra.Command {
	var dataDir string
	var format listFormat
	var over time.Duration
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the processes of a running instance",
		Long: `Show the processes of a running instance.

REQUESTS counts the requests that aggregators have sent to a replica of another service since they started, and for an
aggregator those that it has sent. SHARE is the replica's part of the requests of its service. With --over, the command
counts requests for that long, from now on.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if over < 0 {
				return fmt.Errorf("--over %s is negative", over)
			}
			statuses, err := up.GetStatus(cmd.Context(), up.DataDir(dataDir), over)
			if err != nil {
				return err
			}
			return printList(cmd.OutOrStdout(), format, statuses, func(s up.Status) string { return s.Replica }, printStatuses)
		},
	}
	addDataDirFlag(cmd, &dataDir)
	addListFormat(cmd, &format)
	cmd.Flags().DurationVar(&over, "over", 0, "count requests for this long, as in 10s, instead of since the start")
	return cmd
}

// checkFormat refuses a format that is neither JSON nor the one for people.
func checkFormat(format, forPeople string) error {
	if format != formatJSON && format != forPeople {
		return fmt.Errorf("--output must be %s or %s, not %q", forPeople, formatJSON, format)
	}
	return nil
}

func printJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

func printStatuses(out io.Writer, statuses []up.Status) error {
	table := newTable(out, "REPLICA", "READY", "PID", "ADDRESS", "VERSION", "AGE", "RESTARTS", "MEMORY", "REQUESTS", "SHARE", "MESSAGE")
	for _, s := range statuses {
		age, requests, share := "-", "-", "-"
		if s.PID != 0 {
			age = duration.HumanDuration(time.Since(s.StartTime))
		}
		if s.Requests != nil {
			requests = strconv.FormatInt(*s.Requests, 10)
		}
		if s.Share != nil {
			share = fmt.Sprintf("%.1f%%", 100**s.Share)
		}
		memory := fmt.Sprintf("%d MiB", s.ResidentMemoryBytes>>20)
		row(table, s.Replica, s.Ready, s.PID, s.Address, s.Version, age, s.Restarts, memory, requests, share, s.Message)
	}
	return table.Flush()
}
