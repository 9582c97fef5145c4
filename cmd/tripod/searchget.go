// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"al.essio.dev/pkg/shellescape"
	"github.com/spf13/cobra"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// question is what tripod search get asks.
type question struct {
	cluster, namespace, owner, fuzzy, selector, fields, order, output, maxStaleness string
	texts, in                                                                       []string
	generations, limit                                                              int
	watch                                                                           bool
}

// kubectlLimit is how many objects kubectl asks for.
const kubectlLimit = 500

func newSearchGetCommand() *cobra.Command {
	var q question
	cmd := &cobra.Command{
		Use:   "get TYPE [NAME...]",
		Short: "Find objects in all clusters, and show the kubectl command that does it",
		Long: `Find objects in all clusters, and show the kubectl command that does it.

  tripod search get pods --owner deployment/web
  tripod search get deployments --fuzzy ngin --order created_at_desc
  tripod search get pods --cluster east -n default --field-selector 'spec.containers[].image=nginx:1.25'
  tripod search get pods --field-selector status.phase=Failed --watch
  tripod search get pods --text nginx --text envoy --in metadata.name,spec.containers[].image
  tripod search get deployments --order spec.replicas_desc,name

Run tripod search kubeconfig once before.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			command, err := q.command(args, cmd.Flags().Changed("generations"))
			if err != nil {
				return err
			}
			config, err := startingConfig()
			if err != nil {
				return err
			}
			if err := q.check(config); err != nil {
				return err
			}
			sayCommand(cmd.ErrOrStderr(), command)
			runKubectl(command)
			return nil
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&q.cluster, "cluster", allClusters, "cluster to search; "+allClusters+" means all of them")
	fs.StringVarP(&q.namespace, "namespace", "n", "", "namespace; empty means all of them")
	fs.StringVar(&q.owner, "owner", "", "owner of the objects, as TYPE/NAME or RESOURCE.GROUP/NAME")
	fs.IntVar(&q.generations, "generations", 0,
		"generations between the owner and the objects; by default 1 for the pods of deployments and cronjobs, and otherwise 0")
	fs.StringVar(&q.fuzzy, "fuzzy", "", "part of the name")
	fs.StringVarP(&q.selector, "selector", "l", "", "labels of objects, and parameters of search")
	fs.StringVar(&q.fields, "field-selector", "", "fields of objects, such as status.phase=Failed")
	fs.StringArrayVar(&q.texts, "text", nil,
		"find objects with this text in a field of --in, in upper or lower case; repeat it for one of several texts")
	fs.StringSliceVar(&q.in, "in", []string{"metadata.name"}, "fields for --text")
	fs.StringVar(&q.order, "order", "", "columns and fields to sort by, such as created_at_desc,name or spec.replicas_desc")
	fs.IntVar(&q.limit, "limit", kubectlLimit, "objects to return at most; 0 returns all")
	fs.StringVar(&q.maxStaleness, "max-staleness", "", "how old the copies of the clusters may be, such as 30s; empty accepts any age")
	fs.BoolVarP(&q.watch, "watch", "w", false, "go on with what changes, until Ctrl-C")
	fs.StringVarP(&q.output, "output", "o", "", "format of the output, as of kubectl")
	return cmd
}

// owners are those that people name without a group.
var owners = map[schema.GroupResource][]string{
	{Group: "apps", Resource: "deployments"}:  {"deploy", "deployment", "deployments"},
	{Group: "apps", Resource: "replicasets"}:  {"rs", "replicaset", "replicasets"},
	{Group: "apps", Resource: "statefulsets"}: {"sts", "statefulset", "statefulsets"},
	{Group: "apps", Resource: "daemonsets"}:   {"ds", "daemonset", "daemonsets"},
	{Group: "batch", Resource: "jobs"}:        {"job", "jobs"},
	{Group: "batch", Resource: "cronjobs"}:    {"cj", "cronjob", "cronjobs"},
	{Resource: "nodes"}:                       {"no", "node", "nodes"},
}

// ownerOf reads TYPE/NAME.
func ownerOf(text string) (resource schema.GroupResource, name string, err error) {
	kind, name, found := strings.Cut(text, "/")
	if !found || kind == "" || name == "" {
		return resource, "", fmt.Errorf("--owner %s: write TYPE/NAME, such as deployment/web", text)
	}
	if strings.Contains(kind, ".") {
		return schema.ParseGroupResource(kind), name, nil
	}
	for resource, names := range owners {
		if slices.Contains(names, strings.ToLower(kind)) {
			return resource, name, nil
		}
	}
	return resource, "", fmt.Errorf("--owner %s: write the resource with its group, such as boats.example.com/%s", text, name)
}

// command returns the arguments of kubectl.
func (q *question) command(what []string, counted bool) ([]string, error) {
	if q.limit < 0 {
		return nil, fmt.Errorf("--limit %d: write a number of objects, or 0 for all", q.limit)
	}
	if q.watch && (q.order != "" || q.owner != "") {
		return nil, errors.New("--watch with --order or --owner: search decides about each change by the object alone, so leave these out")
	}
	labels, err := q.labels(what, counted)
	if err != nil {
		return nil, err
	}
	fields := q.fields
	if len(q.texts) > 0 {
		if fields != "" {
			fields += ","
		}
		fields += q.textSelector()
	}
	command := []string{"--cluster", q.cluster, "get", what[0]}
	if q.namespace == "" {
		command = append(command, "-A")
	} else {
		command = append(command, "-n", q.namespace)
	}
	for _, option := range [][2]string{{"-l", strings.Join(labels, ",")}, {"--field-selector", fields}, {"-o", q.output}} {
		if option[1] != "" {
			command = append(command, option[0], option[1])
		}
	}
	if q.watch {
		command = append(command, "-w")
	}
	if q.limit != kubectlLimit {
		command = append(command, "--chunk-size", strconv.Itoa(q.limit))
	}
	return command, nil
}

// parameters is the domain of the labels that are parameters of search.
const parameters = "search.clusterpedia.io/"

// labels returns the parts of the label selector.
func (q *question) labels(what []string, counted bool) ([]string, error) {
	var labels []string
	if q.selector != "" {
		labels = append(labels, q.selector)
	}
	if q.fuzzy != "" {
		labels = append(labels, parameters+"fuzzy-name="+q.fuzzy)
	}
	if q.owner != "" {
		of, err := q.ownerLabels(what[0], counted)
		if err != nil {
			return nil, err
		}
		labels = append(labels, of...)
	}
	if q.order != "" {
		for part := range strings.SplitSeq(q.order, ",") {
			if part = strings.TrimSpace(part); len(validation.IsValidLabelValue(part)) > 0 {
				return nil, fmt.Errorf("--order %s: kubectl sends the order as a label, which has letters, digits, dots and dashes, and 63 of them; "+
					"the parameter orderby of a URL takes any field", part)
			}
		}
		labels = append(labels, fmt.Sprintf("%sorderby in (%s)", parameters, q.order))
	}
	if q.maxStaleness != "" {
		labels = append(labels, parameters+"max-staleness="+q.maxStaleness)
	}
	if len(what) > 1 {
		labels = append(labels, fmt.Sprintf("%snames in (%s)", parameters, strings.Join(what[1:], ",")))
	}
	return labels, nil
}

// ownerLabels returns the labels that ask for objects of an owner.
func (q *question) ownerLabels(what string, counted bool) ([]string, error) {
	resource, name, err := ownerOf(q.owner)
	if err != nil {
		return nil, err
	}
	generations := q.generations
	isPods := slices.Contains([]string{"po", "pod", "pods"}, what)
	if !counted && isPods && (resource.Resource == "deployments" || resource.Resource == "cronjobs") {
		generations = 1
	}
	labels := []string{parameters + "owner-name=" + name, parameters + "owner-gr=" + resource.String()}
	if generations > 0 {
		labels = append(labels, fmt.Sprintf("%sowner-seniority=%d", parameters, generations))
	}
	return labels, nil
}

// textSelector returns the field selector that finds texts.
func (q *question) textSelector() string {
	texts := make([]string, len(q.texts))
	for i, text := range q.texts {
		texts[i] = escaper.Replace(text)
	}
	return strings.Join(q.in, "|") + " icontains (" + strings.Join(texts, ", ") + ")"
}

// escaper has each character of a text in a list be meant literally.
var escaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`, ",", `\,`, "(", `\(`, ")", `\)`, " ", `\ `, "\t", "\\\t", "\n", "\\\n")

// check tells who has not run tripod search kubeconfig yet.
func (q *question) check(config *clientcmdapi.Config) error {
	if entry := config.Clusters[q.cluster]; entry == nil || !strings.Contains(entry.Server, searchPath) {
		return fmt.Errorf("the kubeconfig has no entry of search for %s: run tripod search kubeconfig, "+
			"or see tripod search clusters list", q.cluster)
	}
	return nil
}

// sayCommand prints a command that a shell understands.
func sayCommand(out io.Writer, arguments []string) {
	fmt.Fprintln(out, "kubectl", shellescape.QuoteCommand(arguments))
}
