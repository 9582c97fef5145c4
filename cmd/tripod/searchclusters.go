// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/tripod-k8s/tripod/services/search/apis/cluster/v1alpha2"
)

// lookInterval is how often the state of a new cluster is read.
const lookInterval = 500 * time.Millisecond

func newSearchClustersCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "clusters",
		Short: "Add, list and remove the clusters that search copies",
		Long: `Add, list and remove the clusters that search copies. They are PediaClusters in the cluster that search is part of, which
$KUBECONFIG names, or else the instance on this machine.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSearchClustersAddCommand(), newSearchClustersListCommand(), newSearchClustersRemoveCommand())
	return cmd
}

// addition says which cluster to add.
type addition struct {
	name, kubeconfig, context string
	resources                 []string
	wait                      bool
	timeout                   time.Duration
}

func newSearchClustersAddCommand() *cobra.Command {
	var a addition
	cmd := &cobra.Command{
		Use:   "add NAME --kubeconfig FILE",
		Short: "Have search copy a cluster",
		Long: `Have search copy a cluster, and wait until all of its objects are there.

  tripod search clusters add east --kubeconfig east.kubeconfig
  tripod search clusters add west --kubeconfig west.kubeconfig --resources pods,deployments.apps,*.example.com

Search connects with the kubeconfig, from where it runs. The user in it must be allowed to list and watch what is copied.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.name = args[0]
			spec, err := a.spec()
			if err != nil {
				return err
			}
			clusters, err := pediaClusters()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), a.timeout)
			defer cancel()
			return a.add(ctx, clusters, spec, progressTo(cmd.OutOrStdout()))
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&a.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster to add")
	fs.StringVar(&a.context, "context", "", "context in that file; empty means its current one")
	fs.StringSliceVar(&a.resources, "resources", []string{"*.*"},
		"resources to copy, as RESOURCE or RESOURCE.GROUP; * stands for all, but no Secrets")
	fs.BoolVar(&a.wait, "wait", true, "wait until the objects are copied")
	fs.DurationVar(&a.timeout, "timeout", 5*time.Minute, "how long to wait")
	_ = cmd.MarkFlagRequired("kubeconfig") // the flag exists
	return cmd
}

// spec returns the spec of the PediaCluster.
func (a *addition) spec() (*v1alpha2.ClusterSpec, error) {
	config, err := clientcmd.LoadFromFile(a.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	if a.context != "" {
		config.CurrentContext = a.context
	}
	if config.Contexts[config.CurrentContext] == nil {
		return nil, fmt.Errorf("--kubeconfig %s has no context %q: choose one with --context", a.kubeconfig, config.CurrentContext)
	}
	if err := clientcmdapi.MinifyConfig(config); err != nil {
		return nil, fmt.Errorf("--kubeconfig %s: %w", a.kubeconfig, err)
	}
	for _, user := range config.AuthInfos {
		if user.Exec != nil || user.AuthProvider != nil {
			return nil, fmt.Errorf("--kubeconfig %s runs a program to log in, which search does not: use a token or a certificate", a.kubeconfig)
		}
	}
	if err := clientcmdapi.FlattenConfig(config); err != nil { // search reads no files
		return nil, fmt.Errorf("--kubeconfig %s: %w", a.kubeconfig, err)
	}
	text, err := clientcmd.Write(*config)
	if err != nil {
		return nil, err
	}
	spec := &v1alpha2.ClusterSpec{Kubeconfig: text}
	for _, resource := range a.resources {
		parsed := schema.ParseGroupResource(resource)
		spec.SyncResources = append(spec.SyncResources, v1alpha2.GroupResources{Group: parsed.Group, Resources: []string{parsed.Resource}})
	}
	return spec, nil
}

// add creates the PediaCluster, and reports how far search is. It leaves nothing behind if search cannot use the spec.
func (a *addition) add(ctx context.Context, clusters dynamic.ResourceInterface, spec *v1alpha2.ClusterSpec, say func(string)) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&v1alpha2.PediaCluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha2.GroupVersion.String(), Kind: "PediaCluster"},
		ObjectMeta: metav1.ObjectMeta{Name: a.name},
		Spec:       *spec,
	})
	if err != nil {
		return err
	}
	delete(fields, "status")
	_, err = clusters.Create(ctx, &unstructured.Unstructured{Object: fields}, metav1.CreateOptions{FieldManager: "tripod"})
	switch {
	case apierrors.IsAlreadyExists(err):
		return fmt.Errorf("there is a cluster %s: remove it first, or change it with kubectl edit pediacluster %s", a.name, a.name)
	case err != nil:
		return withoutSearch(err)
	case !a.wait:
		say("search was told to copy " + a.name)
		return nil
	}
	said := ""
	for {
		cluster, err := a.look(ctx, clusters)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if err == nil {
			p := progressOf(cluster.Status)
			if p.says != said {
				say(p.says)
				said = p.says
			}
			if p.invalid {
				if err := clusters.Delete(ctx, a.name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
					return fmt.Errorf("search cannot use %s, and it cannot be removed again: %w", a.name, err)
				}
				return fmt.Errorf("search cannot use %s, so it is not added: %s", a.name, p.says)
			}
			if p.done {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not copied yet (%s). Search goes on. To take it back: tripod search clusters remove %s", a.name, said, a.name)
		case <-time.After(lookInterval):
		}
	}
}

func (a *addition) look(ctx context.Context, clusters dynamic.ResourceInterface) (*v1alpha2.PediaCluster, error) {
	object, err := clusters.Get(ctx, a.name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	cluster := &v1alpha2.PediaCluster{}
	return cluster, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, cluster)
}

// progress is how far search is with a cluster.
type progress struct {
	says          string
	done, invalid bool
	// copied of resources have all of their objects in search, and failing ones are not copied.
	copied, resources, failing int
}

func progressOf(status v1alpha2.ClusterStatus) progress {
	p := progress{says: "waiting for search"}
	if validated := meta.FindStatusCondition(status.Conditions, v1alpha2.Validated); validated == nil {
		return p
	} else if validated.Status != metav1.ConditionTrue {
		return progress{says: validated.Message, invalid: true}
	}
	for _, group := range status.SyncResources {
		for _, resource := range group.Resources {
			for _, version := range resource.SyncConditions {
				p.resources++
				switch {
				case version.Status == "Error":
					p.failing++
				case !version.InitialListPhase && version.Status == "Syncing":
					p.copied++
				}
			}
		}
	}
	healthy := meta.FindStatusCondition(status.Conditions, v1alpha2.ClusterHealthy)
	fresh := meta.FindStatusCondition(status.Conditions, v1alpha2.Fresh)
	// A complete copy may be old: its resources were all listed once.
	complete := fresh != nil && (fresh.Status == metav1.ConditionTrue || fresh.Reason == v1alpha2.Stale)
	switch {
	case healthy == nil || healthy.Status != metav1.ConditionTrue:
		p.says = "search has not reached the cluster"
		if complete {
			p.says = "search does not reach the cluster now, and answers from its last copy"
		}
		if healthy != nil && healthy.Message != "" {
			p.says += ": " + healthy.Message
		}
	case p.resources == 0:
		p.says = "search asks the cluster what it has"
	default:
		p.says = fmt.Sprintf("%d of %d resources are copied", p.copied, p.resources)
		failing := "cannot be copied"
		if complete && p.failing > 0 {
			p.says, failing = fmt.Sprintf("all %d resources are copied", p.resources), "not kept up to date now"
		}
		if p.failing > 0 {
			p.says += fmt.Sprintf(", %d %s (kubectl get pediaclusters -o yaml says why)", p.failing, failing)
		}
		p.done = p.copied+p.failing == p.resources
	}
	return p
}

// listedCluster is what tripod search clusters list -o json prints.
type listedCluster struct {
	Name    string `json:"name"`
	Ready   bool   `json:"ready"`
	Version string `json:"version,omitempty"`
	Server  string `json:"server,omitempty"`
	// Resources counts versions of resources, and Copied those that are copied as a whole.
	Resources int    `json:"resources"`
	Copied    int    `json:"copied"`
	Message   string `json:"message"`
}

func newSearchClustersListCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the clusters that search was told to copy",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(format, formatTable); err != nil {
				return err
			}
			clusters, err := pediaClusters()
			if err != nil {
				return err
			}
			all, err := listClusters(cmd.Context(), clusters)
			if err != nil {
				return err
			}
			if format == formatJSON {
				return printJSON(cmd.OutOrStdout(), all)
			}
			return printClusters(cmd.OutOrStdout(), all)
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", formatTable, "format of the output: table or json")
	return cmd
}

func listClusters(ctx context.Context, clusters dynamic.ResourceInterface) ([]listedCluster, error) {
	objects, err := clusters.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, withoutSearch(err)
	}
	all := []listedCluster{}
	for _, object := range objects.Items {
		var c v1alpha2.PediaCluster
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &c); err != nil {
			return nil, fmt.Errorf("%s: %w", object.GetName(), err)
		}
		p := progressOf(c.Status)
		all = append(all, listedCluster{
			Name: c.Name, Ready: meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha2.Ready),
			Version: c.Status.Version, Server: c.Status.APIServer,
			Resources: p.resources, Copied: p.copied, Message: p.says,
		})
	}
	slices.SortFunc(all, func(a, b listedCluster) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

func printClusters(out io.Writer, all []listedCluster) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tREADY\tVERSION\tSERVER\tMESSAGE") //nolint:errcheck // Flush returns it
	for _, c := range all {
		fmt.Fprintf(table, "%s\t%v\t%s\t%s\t%s\n", c.Name, c.Ready, c.Version, c.Server, c.Message) //nolint:errcheck // Flush returns it
	}
	return table.Flush()
}

func newSearchClustersRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME...",
		Short: "Have search forget clusters and their objects",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			clusters, err := pediaClusters()
			if err != nil {
				return err
			}
			return removeClusters(cmd.Context(), clusters, names, cmd.OutOrStdout())
		},
	}
}

// removeClusters removes all that it can.
func removeClusters(ctx context.Context, clusters dynamic.ResourceInterface, names []string, out io.Writer) error {
	var failures []error
	for _, name := range names {
		switch err := clusters.Delete(ctx, name, metav1.DeleteOptions{}); {
		case apierrors.IsNotFound(err):
			failures = append(failures, fmt.Errorf("search was not told to copy a cluster %s: "+
				"tripod search clusters list names those that it was", name))
		case err != nil:
			failures = append(failures, fmt.Errorf("%s: %w", name, err))
		default:
			fmt.Fprintf(out, "%s is removed\n", name) //nolint:errcheck // it is only news
		}
	}
	return errors.Join(failures...)
}

// pediaClusters returns the PediaClusters of the cluster that search is part of.
func pediaClusters() (dynamic.ResourceInterface, error) {
	to, err := toHub()
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(to)
	if err != nil {
		return nil, err
	}
	return client.Resource(v1alpha2.GroupVersion.WithResource("pediaclusters")), nil
}

// withoutSearch explains the error of a cluster that has no PediaClusters.
func withoutSearch(err error) error {
	if apierrors.IsNotFound(err) {
		return errors.New("this cluster has no search, or search has not started yet; tripod up --search runs it")
	}
	return err
}
