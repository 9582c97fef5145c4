// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/tripod-k8s/tripod/internal/instance"
	"github.com/tripod-k8s/tripod/internal/supervisor"
)

// Formats of output.
const (
	formatTable = "table"
	formatJSON  = "json"
)

func newStatusCommand() *cobra.Command {
	var dataDir, format string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the processes of a running instance",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(format, formatTable); err != nil {
				return err
			}
			statuses, err := instance.Status(cmd.Context(), instance.DataDir(dataDir))
			if err != nil {
				return err
			}
			if format == formatJSON {
				return printJSON(cmd.OutOrStdout(), statuses)
			}
			return printStatuses(cmd.OutOrStdout(), statuses)
		},
	}
	addDataDirFlag(cmd, &dataDir)
	cmd.Flags().StringVarP(&format, "output", "o", formatTable, "format of the output: table or json")
	return cmd
}

// checkFormat refuses a format of output that is neither JSON nor the one for people.
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

func printStatuses(out io.Writer, statuses []supervisor.Status) error {
	const columns = "COMPONENT\tREPLICA\tREADY\tPID\tADDRESS\tVERSION\tAGE\tRESTARTS\tMEMORY\tMESSAGE"
	table := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	fmt.Fprintln(table, columns) //nolint:errcheck // Flush tells
	for _, s := range statuses {
		age := "-"
		if s.PID != 0 {
			age = duration.HumanDuration(time.Since(s.StartTime))
		}
		//nolint:errcheck // Flush tells
		fmt.Fprintf(table, "%s\t%s\t%t\t%d\t%s\t%s\t%s\t%d\t%d MiB\t%s\n", s.Component, s.Replica, s.Ready, s.PID, s.Address,
			s.Version, age, s.Restarts, s.ResidentMemoryBytes>>20, s.Message)
	}
	return table.Flush()
}
