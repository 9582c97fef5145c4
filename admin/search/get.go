// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Question is a search that kubectl can do.
type Question struct {
	// Cluster is a cluster, or [AllClusters].
	Cluster string
	// Namespace is empty for all namespaces.
	Namespace string
	// Owner owns the objects, as TYPE/NAME or RESOURCE.GROUP/NAME, over Generations between.
	Owner       string
	Generations int
	// Fuzzy is a part of the name.
	Fuzzy string
	// Selector and Fields are selectors of labels and fields.
	Selector, Fields string
	// Texts are found in any of the fields In.
	Texts, In []string
	// Order has columns and fields to sort by.
	Order string
	// MaxStaleness is how old the copies of clusters may be.
	MaxStaleness string
	// Limit is how many objects to return at most. 0 is all.
	Limit int
	// Watch goes on with what changes.
	Watch bool
	// Output is a format of kubectl.
	Output string
}

// KubectlLimit is how many objects kubectl asks for.
const KubectlLimit = 500

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

// Command returns the arguments of kubectl that find objects of the type what[0] with the other names in what. counted is whether the
// caller chose Generations.
func (q *Question) Command(what []string, counted bool) ([]string, error) {
	if q.Limit < 0 {
		return nil, fmt.Errorf("--limit %d: write a number of objects, or 0 for all", q.Limit)
	}
	if q.Watch && (q.Order != "" || q.Owner != "") {
		return nil, errors.New("--watch with --order or --owner: search decides about each change by the object alone, so leave these out")
	}
	labels, err := q.labels(what, counted)
	if err != nil {
		return nil, err
	}
	fields := q.Fields
	if len(q.Texts) > 0 {
		if fields != "" {
			fields += ","
		}
		fields += q.textSelector()
	}
	command := []string{"--cluster", q.Cluster, "get", what[0]}
	if q.Namespace == "" {
		command = append(command, "-A")
	} else {
		command = append(command, "-n", q.Namespace)
	}
	for _, option := range [][2]string{{"-l", strings.Join(labels, ",")}, {"--field-selector", fields}, {"-o", q.Output}} {
		if option[1] != "" {
			command = append(command, option[0], option[1])
		}
	}
	if q.Watch {
		command = append(command, "-w")
	}
	if q.Limit != KubectlLimit {
		command = append(command, "--chunk-size", strconv.Itoa(q.Limit))
	}
	return command, nil
}

// parameters is the domain of the labels that are parameters of search.
const parameters = "search.clusterpedia.io/"

// labels returns the parts of the label selector.
func (q *Question) labels(what []string, counted bool) ([]string, error) {
	var labels []string
	if q.Selector != "" {
		labels = append(labels, q.Selector)
	}
	if q.Fuzzy != "" {
		labels = append(labels, parameters+"fuzzy-name="+q.Fuzzy)
	}
	if q.Owner != "" {
		of, err := q.ownerLabels(what[0], counted)
		if err != nil {
			return nil, err
		}
		labels = append(labels, of...)
	}
	if q.Order != "" {
		for part := range strings.SplitSeq(q.Order, ",") {
			if part = strings.TrimSpace(part); len(validation.IsValidLabelValue(part)) > 0 {
				return nil, fmt.Errorf("--order %s: kubectl sends the order as a label, which has letters, digits, dots and dashes, and 63 of them; "+
					"the parameter orderby of a URL takes any field", part)
			}
		}
		labels = append(labels, fmt.Sprintf("%sorderby in (%s)", parameters, q.Order))
	}
	if q.MaxStaleness != "" {
		labels = append(labels, parameters+"max-staleness="+q.MaxStaleness)
	}
	if len(what) > 1 {
		labels = append(labels, fmt.Sprintf("%snames in (%s)", parameters, strings.Join(what[1:], ",")))
	}
	return labels, nil
}

// ownerLabels returns the labels that ask for objects of an owner.
func (q *Question) ownerLabels(what string, counted bool) ([]string, error) {
	resource, name, err := ownerOf(q.Owner)
	if err != nil {
		return nil, err
	}
	generations := q.Generations
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
func (q *Question) textSelector() string {
	texts := make([]string, len(q.Texts))
	for i, text := range q.Texts {
		texts[i] = escaper.Replace(text)
	}
	return strings.Join(q.In, "|") + " icontains (" + strings.Join(texts, ", ") + ")"
}

// escaper has each character of a text in a list be meant literally.
var escaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`, ",", `\,`, "(", `\(`, ")", `\)`, " ", `\ `, "\t", "\\\t", "\n", "\\\n")

// Check returns an error that names the missing step if the kubeconfig has no entry for the cluster. It makes Cluster the name of the
// entry.
func (q *Question) Check(config *clientcmdapi.Config) error {
	name := EntryName(config, q.Cluster)
	if config.Clusters[name] == nil {
		return fmt.Errorf("the kubeconfig has no entry of search for %s: run tripod search kubeconfig, "+
			"or see tripod search clusters list", q.Cluster)
	}
	q.Cluster = name
	return nil
}
