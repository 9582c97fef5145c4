// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"k8s.io/component-base/version"

	"github.com/tripod-k8s/tripod/base/service"
)

// formatText is the format of output for people where there is no table.
const formatText = "text"

// versions is what `tripod version -o json` prints.
type versions struct {
	Tripod     string `json:"tripod"`
	Kubernetes string `json:"kubernetes"`
	GoVersion  string `json:"goVersion"`
	Platform   string `json:"platform"`
}

func newVersionCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version of Tripod and of the Kubernetes it is built from",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(format, formatText); err != nil {
				return err
			}
			if format == formatJSON {
				return printJSON(cmd.OutOrStdout(), currentVersions())
			}
			return printVersion(cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", formatText, "format of the output: text or json")
	return cmd
}

func currentVersions() versions {
	kubernetes := version.Get()
	return versions{
		Tripod:     service.Version,
		Kubernetes: kubernetes.GitVersion,
		GoVersion:  kubernetes.GoVersion,
		Platform:   kubernetes.Platform,
	}
}

func printVersion(out io.Writer) error {
	v := currentVersions()
	_, err := fmt.Fprintf(out, "Tripod %s\nKubernetes %s\n", v.Tripod, v.Kubernetes)
	return err
}
