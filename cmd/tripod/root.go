// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tripod-k8s/tripod/local/up"
)

func newRootCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tripod",
		Short: "Run the Kubernetes API server as three services",
		Long: `Tripod is the Kubernetes API server as three services: aggregator, core and extensions.

  tripod up -d                 start an instance with its own etcd on this machine, in the background
  tripod kubectl get pods -A   use it
  tripod down                  stop it`,
		SilenceUsage:  true,
		SilenceErrors: true,
		// How many letters may differ in a command that an error suggests.
		SuggestionsMinimumDistance: 2,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	// A library adds a --version without effect to every command. This flag replaces it.
	cmd.PersistentFlags().BoolFunc("version", "show the version and exit", func(string) error {
		if err := printVersion(cmd.OutOrStdout()); err != nil {
			return err
		}
		os.Exit(0)
		return nil
	})
	cmd.AddCommand(
		newUpCommand(),
		newListCommand(),
		newStatusCommand(),
		newLogsCommand(),
		newScaleCommand(),
		newDownCommand(),
		newDeleteCommand(),
		newCheckCommand(),
		newKubectlCommand(),
		newConnectCommand(),
		newKubeAPIServerCommand(),
		newCopyKubeAPIServerCommand(),
		newStaticPodsCommand(),
		newCertsCommand(),
		newJoinCommand(),
		newEtcdCommand(),
		newDebugCommand(),
		newMigrateCommand(),
		newSearchCommand(),
		newConsoleCommand(),
		newExplainRequestCommand(),
		newNewCommand(),
		newVersionCommand(),
	)
	cmd.Args = knownCommand
	cmd.SetFlagErrorFunc(withHelp)
	nameHelp(cmd)
	return cmd
}

// knownCommand is cobra.NoArgs with suggestions, which cobra makes only for a root command without Args.
func knownCommand(cmd *cobra.Command, args []string) error {
	err := cobra.NoArgs(cmd, args)
	if err == nil {
		return nil
	}
	if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
		err = fmt.Errorf("%w (similar: %s)", err, strings.Join(similar, ", "))
	}
	return err
}

// nameHelp makes errors about the arguments of a command, and of those below it, name its help.
func nameHelp(cmd *cobra.Command) {
	for _, below := range cmd.Commands() {
		nameHelp(below)
	}
	check := cmd.Args
	if check == nil {
		return
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return withHelp(cmd, err)
		}
		return nil
	}
}

func withHelp(cmd *cobra.Command, err error) error {
	return fmt.Errorf("%w: see `%s --help`", err, cmd.CommandPath())
}

// addDataDirFlag adds the flags that name the instance, by its directory or its name.
func addDataDirFlag(cmd *cobra.Command, dataDir *string) {
	const byPath, byName = "data-dir", "name"
	fs := cmd.Flags()
	fs.StringVar(dataDir, byPath, up.DefaultDataDir(), "directory of the instance; the default can be set with $"+up.DataDirVariable)
	if os.Getenv(up.DataDirVariable) == "" {
		fs.Lookup(byPath).DefValue = up.DefaultDataDirHelp
	}
	fs.Var(&nameFlag{dataDir}, byName, fmt.Sprintf("name of the instance, whose directory is then %s-NAME; %q is the one without a name",
		up.DefaultDataDirHelp, up.DefaultName))
	cmd.MarkFlagsMutuallyExclusive(byPath, byName)
	_ = cmd.RegisterFlagCompletionFunc(byName, completeInstances) // the flag is there
	cmd.PreRun = func(cmd *cobra.Command, _ []string) {
		if !fs.Changed(byPath) && !fs.Changed(byName) {
			sayEarlierInstance(cmd.ErrOrStderr())
		}
	}
}

// nameFlag sets the data directory by the name of an instance.
type nameFlag struct{ dataDir *string }

func (f *nameFlag) String() string { return "" }
func (f *nameFlag) Type() string   { return "string" }

func (f *nameFlag) Set(name string) error {
	dir, err := up.DataDirNamed(name)
	*f.dataDir = string(dir)
	return err
}

func completeInstances(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var names []string
	dirs, err := up.Instances()
	for _, dir := range dirs {
		names = append(names, dir.Name())
	}
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeLogs completes the first argument to the logs of the instance.
func completeLogs(dataDir *string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		logs, err := up.Logs(up.DataDir(*dataDir))
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return logs, cobra.ShellCompDirectiveNoFileComp
	}
}

// sayEarlierInstance says how to go on using an instance in the working directory.
func sayEarlierInstance(w io.Writer) {
	if line := up.EarlierInstance(); line != "" {
		fmt.Fprintln(w, line)
	}
}
