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
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/tripod-k8s/tripod/services/search/apis/cluster/v1alpha2"
)

// lookInterval is how often the state of a new cluster is read.
const lookInterval = 500 * time.Millisecond

// Addition says which cluster to add, with the credentials of a kubeconfig.
type Addition struct {
	// Name is that of the PediaCluster.
	Name string
	// Kubeconfig is the file by which search reaches the cluster. Its current context counts.
	Kubeconfig string
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
	if config.Contexts[config.CurrentContext] == nil {
		return nil, fmt.Errorf("--kubeconfig %s has no current context: choose one with --context, and search gets an account of its own",
			a.Kubeconfig)
	}
	if err := clientcmdapi.MinifyConfig(config); err != nil {
		return nil, fmt.Errorf("--kubeconfig %s: %w", a.Kubeconfig, err)
	}
	for _, user := range config.AuthInfos {
		if user.Exec != nil || user.AuthProvider != nil {
			return nil, fmt.Errorf("--kubeconfig %s runs a program to log in, which search does not: add --context %s, and search gets an account "+
				"of its own", a.Kubeconfig, config.CurrentContext)
		}
	}
	if err := clientcmdapi.FlattenConfig(config); err != nil { // search reads no files
		return nil, fmt.Errorf("--kubeconfig %s: %w", a.Kubeconfig, err)
	}
	text, err := clientcmd.Write(*config)
	if err != nil {
		return nil, err
	}
	return &v1alpha2.ClusterSpec{Kubeconfig: text, SyncResources: groupResources(a.Resources)}, nil
}

// groupResources reads RESOURCE and RESOURCE.GROUP.
func groupResources(names []string) (all []v1alpha2.GroupResources) {
	for _, name := range names {
		parsed := schema.ParseGroupResource(name)
		all = append(all, v1alpha2.GroupResources{Group: parsed.Group, Resources: []string{parsed.Resource}})
	}
	return all
}

// pediaCluster returns the fields of a new PediaCluster.
func pediaCluster(name string, annotations map[string]string, spec *v1alpha2.ClusterSpec) (*unstructured.Unstructured, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&v1alpha2.PediaCluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha2.GroupVersion.String(), Kind: "PediaCluster"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec:       *spec,
	})
	delete(fields, "status")
	return &unstructured.Unstructured{Object: fields}, err
}

// Add creates the PediaCluster, and reports how far search is. It leaves nothing behind if search cannot use the spec.
func (a *Addition) Add(ctx context.Context, clusters dynamic.ResourceInterface, spec *v1alpha2.ClusterSpec, report func(string)) error {
	object, err := pediaCluster(a.Name, nil, spec)
	if err != nil {
		return err
	}
	_, err = clusters.Create(ctx, object, metav1.CreateOptions{FieldManager: fieldManager})
	switch {
	case apierrors.IsAlreadyExists(err):
		return alreadyExists(a.Name)
	case err != nil:
		return withoutSearch(err)
	case !a.Wait:
		report("search will copy " + a.Name)
		return nil
	}
	err = follow(ctx, clusters, a.Name, 0, report)
	if unusable := (*unusableError)(nil); errors.As(err, &unusable) {
		if err := clusters.Delete(ctx, a.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("search cannot use %s, and it cannot be removed again: %w", a.Name, err)
		}
	}
	return err
}

// fieldManager is the name of the command as a writer of objects.
const fieldManager = "tripod"

func alreadyExists(name string) error {
	return fmt.Errorf("there is a cluster %s: remove it first, or change it with kubectl edit pediacluster %s", name, name)
}

// unusableError says that search cannot use what a PediaCluster says.
type unusableError struct{ cluster, message string }

func (e *unusableError) Error() string {
	return fmt.Sprintf("search cannot use %s, so it is not added: %s", e.cluster, e.message)
}

// follow reports how far search is with a cluster until all of it is copied. It fails if search cannot use its PediaCluster for longer than
// waitTimeout: what this names may be so new that search has not read it yet.
func follow(ctx context.Context, clusters dynamic.ResourceInterface, name string, waitTimeout time.Duration, report func(string)) error {
	shown, usable := "", time.Now()
	for {
		cluster, err := look(ctx, clusters, name)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if err == nil {
			p := progressOf(cluster.Status)
			if p.message != shown {
				report(p.message)
				shown = p.message
			}
			if p.done {
				return nil
			}
			if !p.invalid {
				usable = time.Now()
			} else if time.Since(usable) >= waitTimeout {
				return &unusableError{name, p.message}
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not copied yet (%s). Search goes on. To take it back: tripod search clusters remove %s", name, shown, name)
		case <-time.After(lookInterval):
		}
	}
}

func look(ctx context.Context, clusters dynamic.ResourceInterface, name string) (*v1alpha2.PediaCluster, error) {
	object, err := clusters.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return pediaClusterOf(object)
}

// progress is how far search is with a cluster.
type progress struct {
	message       string
	done, invalid bool
	// copied of resources have all of their objects in search, and failing ones are not copied.
	copied, resources, failing int
}

func progressOf(status v1alpha2.ClusterStatus) progress {
	p := progress{message: "waiting for search"}
	if validated := meta.FindStatusCondition(status.Conditions, v1alpha2.Validated); validated == nil {
		return p
	} else if validated.Status != metav1.ConditionTrue {
		return progress{message: validated.Message, invalid: true}
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
		p.message = "search has not reached the cluster"
		if complete {
			p.message = "search does not reach the cluster now, and answers from its last copy"
		}
		if healthy != nil && healthy.Message != "" {
			p.message += ": " + healthy.Message
		}
	case p.resources == 0:
		p.message = "search asks the cluster what it has"
	default:
		p.message = fmt.Sprintf("%d of %d resources are copied", p.copied, p.resources)
		failing := "cannot be copied"
		if complete && p.failing > 0 {
			p.message, failing = fmt.Sprintf("all %d resources are copied", p.resources), "not kept up to date now"
		}
		if p.failing > 0 {
			p.message += fmt.Sprintf(", %d %s (kubectl get pediaclusters -o yaml says why)", p.failing, failing)
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

// List returns the clusters that search copies or will copy, by name.
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
			Resources: p.resources, Copied: p.copied, Message: p.message,
		})
	}
	slices.SortFunc(all, func(a, b Cluster) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// Print prints clusters as a table.
func Print(out io.Writer, all []Cluster) error {
	table := printers.GetNewTabWriter(out)
	fmt.Fprintln(table, "NAME\tREADY\tVERSION\tSERVER\tMESSAGE")
	for _, c := range all {
		fmt.Fprintf(table, "%s\t%v\t%s\t%s\t%s\n", c.Name, c.Ready, c.Version, c.Server, c.Message)
	}
	return table.Flush()
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
