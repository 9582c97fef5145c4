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

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/admin/explain"
)

// explainTimeout bounds the time of an explanation.
const explainTimeout = 30 * time.Second

func newExplainRequestCommand() *cobra.Command {
	var kubeconfig, contextName string
	var format listFormat
	var action explain.Action
	var user explain.User
	cmd := &cobra.Command{
		Use:   "explain-request VERB PATH|RESOURCE[/NAME[/SUBRESOURCE]]",
		Short: "Show which service would serve a request, and whether a user may send it",
		Long: `Show which service would serve a request and by which rule, in which states its replicas are in the view of the aggregator that answers, and whether
a user may send the request and by which binding. The command does not send the request, and changes nothing.

The cluster is the one that ` + "`tripod kubectl`" + ` uses, or that of --kubeconfig and --context. The command says what it may not ask.`,
		Example: `  tripod explain-request GET /api/v1/namespaces/shop/pods
  tripod explain-request delete deployments.apps/front -n shop --as jane --as-group team-a
  tripod explain-request list boats.example.com -o jsonpath={[*].service}`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeVerbs,
		RunE: func(cmd *cobra.Command, args []string) error {
			action.Verb, action.Target = args[0], args[1]
			if user.Name == "" && len(user.Groups) > 0 {
				return errors.New("--as-group needs --as: groups are those of a user")
			}
			config, err := consoleConfig(kubeconfig, contextName)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), explainTimeout)
			defer cancel()
			explained, err := explainRequest(ctx, config, action, user)
			if err != nil {
				return err
			}
			return printList(cmd.OutOrStdout(), format, []*explain.Explanation{explained},
				func(e *explain.Explanation) string { return e.Service }, printExplanations)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the cluster")
	fs.StringVar(&contextName, "context", "", "context of that kubeconfig; empty means the current one")
	fs.StringVarP(&action.Namespace, "namespace", "n", "", "namespace of a resource; a path has its own")
	fs.StringVar(&user.Name, "as", "", "user who would send the request; empty means you")
	fs.StringArrayVar(&user.Groups, "as-group", nil, "group of that user; repeat it for several: the API does not know them")
	addListFormat(cmd, &format)
	_ = cmd.RegisterFlagCompletionFunc("context", completeContexts) // the flag is there
	return cmd
}

func explainRequest(ctx context.Context, config *rest.Config, action explain.Action, user explain.User) (*explain.Explanation, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	explained, err := explain.Explain(ctx, client, action, user)
	if err != nil || !explained.Known || explained.Service == explain.Aggregator {
		return explained, err
	}
	replicas, note, err := explain.Replicas(ctx, client, explained.Service)
	switch {
	case err != nil:
		explained.Notes = append(explained.Notes, err.Error())
	case note != "":
		explained.Notes = append(explained.Notes, note)
	}
	explained.Replicas = replicas
	return explained, nil
}

func printExplanations(out io.Writer, all []*explain.Explanation) error {
	for _, e := range all {
		allowed := "not known"
		if e.Asked {
			allowed = map[bool]string{true: "yes", false: "no"}[e.Allowed]
		}
		table := newTable(out, "REQUEST", e.Request)
		row(table, "To authorizers", e.Attributes)
		row(table, "Service", e.Service)
		row(table, "Why", e.Rule)
		for _, r := range e.Replicas {
			candidate := ""
			if r.Candidate {
				candidate = ": get requests now"
			}
			row(table, "Replicas", fmt.Sprintf("%d %s%s", r.Count, r.State, candidate))
		}
		row(table, "Allowed", strings.TrimSpace(allowed+". "+e.Reason))
		for _, note := range e.Notes {
			row(table, "Note", note)
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// completeVerbs completes the first argument to the verbs of Kubernetes.
func completeVerbs(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return explain.Verbs, cobra.ShellCompDirectiveNoFileComp
}
