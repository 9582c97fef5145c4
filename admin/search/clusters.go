// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/tripod-k8s/tripod/services/search/apis/cluster/v1alpha2"
)

// lookInterval is how often the state of a new cluster is read.
const lookInterval = 500 * time.Millisecond

// Addition says which cluster to add.
type Addition struct {
	// Name is that of the PediaCluster.
	Name string
	// Kubeconfig is the file by which search reaches the cluster, and Context one in it. Empty means its current context.
	Kubeconfig, Context string
	// Resources are what to copy, as RESOURCE or RESOURCE.GROUP.
	Resources []string
	// Wait is whether to wait until the objects are copied.
	Wait bool
}

// Spec returns the spec of the PediaCluster.
func (a *Addition) Spec() (*v1alpha2.ClusterSpec, error) {
	config, err := clientcmd.LoadFromFile(a.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	if a.Context != "" {
		config.CurrentContext = a.Context
	}
	if config.Contexts[config.CurrentContext] == nil {
		return nil, fmt.Errorf("--kubeconfig %s has no context %q: choose one with --context", a.Kubeconfig, config.CurrentContext)
	}
	if err := clientcmdapi.MinifyConfig(config); err != nil {
		return nil, fmt.Errorf("--kubeconfig %s: %w", a.Kubeconfig, err)
	}
	for _, user := range config.AuthInfos {
		if user.Exec != nil || user.AuthProvider != nil {
			return nil, fmt.Errorf("--kubeconfig %s runs a program to log in, which search does not: use a token or a certificate", a.Kubeconfig)
		}
	}
	if err := clientcmdapi.FlattenConfig(config); err != nil { // search reads no files
		return nil, fmt.Errorf("--kubeconfig %s: %w", a.Kubeconfig, err)
	}
	text, err := clientcmd.Write(*config)
	if err != nil {
		return nil, err
	}
	spec := &v1alpha2.ClusterSpec{Kubeconfig: text}
	for _, resource := range a.Resources {
		parsed := schema.ParseGroupResource(resource)
		spec.SyncResources = append(spec.SyncResources, v1alpha2.GroupResources{Group: parsed.Group, Resources: []string{parsed.Resource}})
	}
	return spec, nil
}

// Add creates the PediaCluster, and reports how far search is. It leaves nothing behind if search cannot use the spec.
func (a *Addition) Add(ctx context.Context, clusters dynamic.ResourceInterface, spec *v1alpha2.ClusterSpec, say func(string)) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&v1alpha2.PediaCluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha2.GroupVersion.String(), Kind: "PediaCluster"},
		ObjectMeta: metav1.ObjectMeta{Name: a.Name},
		Spec:       *spec,
	})
	if err != nil {
		return err
	}
	delete(fields, "status")
	_, err = clusters.Create(ctx, &unstructured.Unstructured{Object: fields}, metav1.CreateOptions{FieldManager: "tripod"})
	switch {
	case apierrors.IsAlreadyExists(err):
		return fmt.Errorf("there is a cluster %s: remove it first, or change it with kubectl edit pediacluster %s", a.Name, a.Name)
	case err != nil:
		return withoutSearch(err)
	case !a.Wait:
		say("search was told to copy " + a.Name)
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
				if err := clusters.Delete(ctx, a.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
					return fmt.Errorf("search cannot use %s, and it cannot be removed again: %w", a.Name, err)
				}
				return fmt.Errorf("search cannot use %s, so it is not added: %s", a.Name, p.says)
			}
			if p.done {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not copied yet (%s). Search goes on. To take it back: tripod search clusters remove %s", a.Name, said, a.Name)
		case <-time.After(lookInterval):
		}
	}
}

func (a *Addition) look(ctx context.Context, clusters dynamic.ResourceInterface) (*v1alpha2.PediaCluster, error) {
	object, err := clusters.Get(ctx, a.Name, metav1.GetOptions{})
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

// Cluster is what tripod search clusters list -o json prints.
type Cluster struct {
	Name    string `json:"name"`
	Ready   bool   `json:"ready"`
	Version string `json:"version,omitempty"`
	Server  string `json:"server,omitempty"`
	// Resources counts versions of resources, and Copied those that are copied as a whole.
	Resources int    `json:"resources"`
	Copied    int    `json:"copied"`
	Message   string `json:"message"`
}

// List returns the clusters that search was told to copy, by name.
func List(ctx context.Context, clusters dynamic.ResourceInterface) ([]Cluster, error) {
	objects, err := clusters.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, withoutSearch(err)
	}
	all := []Cluster{}
	for _, object := range objects.Items {
		var c v1alpha2.PediaCluster
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &c); err != nil {
			return nil, fmt.Errorf("%s: %w", object.GetName(), err)
		}
		p := progressOf(c.Status)
		all = append(all, Cluster{
			Name: c.Name, Ready: meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha2.Ready),
			Version: c.Status.Version, Server: c.Status.APIServer,
			Resources: p.resources, Copied: p.copied, Message: p.says,
		})
	}
	slices.SortFunc(all, func(a, b Cluster) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// Print prints clusters as a table.
func Print(out io.Writer, all []Cluster) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tREADY\tVERSION\tSERVER\tMESSAGE") //nolint:errcheck // Flush returns it
	for _, c := range all {
		fmt.Fprintf(table, "%s\t%v\t%s\t%s\t%s\n", c.Name, c.Ready, c.Version, c.Server, c.Message) //nolint:errcheck // Flush returns it
	}
	return table.Flush()
}

// Remove removes all clusters that it can.
func Remove(ctx context.Context, clusters dynamic.ResourceInterface, names []string, out io.Writer) error {
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

// PediaClusters returns the PediaClusters of the cluster that search is part of.
func PediaClusters(hub *rest.Config) (dynamic.ResourceInterface, error) {
	client, err := dynamic.NewForConfig(hub)
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
