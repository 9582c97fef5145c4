// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command divided compares the memory of one extensions with that of its partitions together, for the same CustomResourceDefinitions. It also
// measures the aggregator, which merges the documents of all. With -limit, it finds how many definitions a machine carries. Its tables are in
// docs/scale.md.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/pager"

	"github.com/tripod-k8s/tripod/lab/bench/load"
	"github.com/tripod-k8s/tripod/lab/bench/process"
	"github.com/tripod-k8s/tripod/lab/bench/schemas"
	"github.com/tripod-k8s/tripod/lab/bench/table"
	"github.com/tripod-k8s/tripod/test/framework"
)

const (
	extensions, aggregator = "extensions", "aggregator"
	// empty is a partition without definitions.
	empty = "empty"
	// readTimeout is for documents of all definitions.
	readTimeout = 10 * time.Minute
	// A list of all definitions is work for extensions, too. In one answer, thousands would take longer than a request may.
	lookInterval, establishTimeout = 5 * time.Second, 20 * time.Minute
	pageSize                       = 200
)

func main() { framework.RunCommand("divided", run) }

type options struct {
	definitions, partitions int
	// settle is how long the processes are idle before they are measured.
	settle time.Duration
	// only is undivided or divided, or empty for both.
	only string
	// limit is the 99th percentile of a GET up to which definitions are added, step by step. Zero compares memory instead.
	limit time.Duration
	step  int
	// profiles is the directory of the CPU profiles that are taken during the reads, or empty.
	profiles string
}

const (
	undivided = "undivided"
	inParts   = "divided"
)

func run(ctx context.Context, args []string) error {
	var o options
	fs := flag.NewFlagSet("divided", flag.ContinueOnError)
	fs.IntVar(&o.definitions, "crds", 300, "number of CustomResourceDefinitions")
	fs.IntVar(&o.partitions, "partitions", 3, "number of partitions that share them, of which one is the default partition")
	fs.DurationVar(&o.settle, "settle", 150*time.Second, "how long processes are idle before they are measured")
	fs.StringVar(&o.only, "only", "", "measure undivided or divided only")
	fs.DurationVar(&o.limit, "limit", 0, "add definitions until the 99th percentile of a GET is this, -crds are there, or the memory of the machine ends")
	fs.IntVar(&o.step, "step", 1000, "with -limit, how many definitions are added before each measurement")
	fs.StringVar(&o.profiles, "profiles", "", "with -limit, write a CPU profile of each service during the reads to this directory")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if !slices.Contains([]string{"", undivided, inParts}, o.only) {
		return fmt.Errorf("-only is %q, want %s or %s", o.only, undivided, inParts)
	}
	if o.limit > 0 {
		t, err := o.grow(ctx)
		return errors.Join(err, table.Write(os.Stdout, []table.Table{t}))
	}
	definitions := schemas.Generate(o.definitions)
	var tables []table.Table
	for _, divided := range []bool{false, true} {
		if o.only == undivided && divided || o.only == inParts && !divided {
			continue
		}
		measured, err := o.measure(ctx, definitions, divided)
		if err != nil {
			return err
		}
		tables = append(tables, measured...)
	}
	return table.Write(os.Stdout, tables)
}

// partitionsOf returns the flags that divide the API groups evenly, and leave the last ones to the default partition.
func (o *options) partitionsOf(definitions []*apiextensionsv1.CustomResourceDefinition) []string {
	flags := []string{"--extensions-partition=" + empty + "=empty.example.com"}
	all := groupsOf(definitions)
	groups := make([][]string, o.partitions)
	for i, group := range all {
		of := &groups[i*o.partitions/len(all)]
		*of = append(*of, group)
	}
	for i, list := range groups[:o.partitions-1] {
		flags = append(flags, fmt.Sprintf("--extensions-partition=p%d=%s", i, strings.Join(list, ",")))
	}
	return flags
}

// groupsOf returns the API groups of definitions. Those of a group follow each other.
func groupsOf(definitions []*apiextensionsv1.CustomResourceDefinition) (groups []string) {
	for _, crd := range definitions {
		groups = append(groups, crd.Spec.Group)
	}
	return slices.Compact(groups)
}

// measure returns the documents and the memory after the definitions were created, and after a restart with them.
func (o *options) measure(ctx context.Context, definitions []*apiextensionsv1.CustomResourceDefinition, divided bool) (tables []table.Table, err error) {
	dir, err := os.MkdirTemp("", "divided")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // nothing depends on it
	title, started := undivided, framework.TripodOptions{DataDir: dir}
	if divided {
		title, started.Args = fmt.Sprintf("%d partitions", o.partitions), o.partitionsOf(definitions)
	}
	groups := groupsOf(definitions)
	for _, when := range []string{"when the definitions are new", "after a restart"} {
		measured, err := o.measureOnce(ctx, started, definitions, groups)
		if err != nil {
			return nil, err
		}
		for i, of := range []string{"documents", "memory (MB)"} {
			measured[i].Title = fmt.Sprintf("%s, %d definitions, %s: %s", title, o.definitions, when, of)
		}
		tables, definitions = append(tables, measured...), definitions[:0]
	}
	return tables, nil
}

func (o *options) measureOnce(
	ctx context.Context, started framework.TripodOptions, create []*apiextensionsv1.CustomResourceDefinition, groups []string,
) (measured []table.Table, err error) {
	env, err := framework.New("divided")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, env.Close(err != nil)) }()
	tripod, err := env.StartTripod(ctx, started)
	if err != nil {
		return nil, err
	}
	if err := define(ctx, tripod, create); err != nil {
		return nil, err
	}
	client, err := load.NewClient(tripod.Admin(), 1)
	if err != nil {
		return nil, err
	}
	documents, err := read(ctx, client, groups)
	if err != nil {
		return nil, err
	}
	if err := o.rest(ctx); err != nil {
		return nil, err
	}
	used, err := memory(ctx, tripod, client)
	return []table.Table{documents, used}, err
}

// rest returns after the time in which processes are idle.
func (o *options) rest(ctx context.Context) error {
	select {
	case <-time.After(o.settle):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// read reads the documents that the aggregator merges, each until it has all groups, and once more. The aggregator does not wait for long for a
// server that makes its document.
func read(ctx context.Context, client *load.Client, groups []string) (table.Table, error) {
	t := table.Table{Header: []string{"document", "MB", "seconds", "again"}}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	for _, r := range []load.Request{
		{Path: "/openapi/v2", Accept: "*/*"},
		{Path: "/openapi/v3", Accept: "*/*"},
		{Path: "/apis", Accept: "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"},
	} {
		r.Method = http.MethodGet
		began := time.Now()
		var document []byte
		for document == nil || slices.ContainsFunc(groups, func(group string) bool { return !bytes.Contains(document, []byte(group)) }) {
			var err error
			if document, err = client.Read(ctx, r); err != nil {
				return t, err
			}
		}
		whole := time.Now()
		if _, err := client.Read(ctx, r); err != nil {
			return t, err
		}
		t.Rows = append(t.Rows, []string{
			r.Path, fmt.Sprintf("%.1f", float64(len(document))/1e6), fmt.Sprintf("%.2f", whole.Sub(began).Seconds()), fmt.Sprintf("%.2f", time.Since(whole).Seconds()),
		})
	}
	return t, nil
}

// define creates definitions, and returns when all are established.
func define(ctx context.Context, tripod *framework.Tripod, definitions []*apiextensionsv1.CustomResourceDefinition) error {
	client, err := apiextensions.NewForConfig(tripod.Admin())
	if err != nil {
		return err
	}
	crds := client.ApiextensionsV1().CustomResourceDefinitions()
	creating, creatingContext := errgroup.WithContext(ctx)
	creating.SetLimit(4)
	for _, crd := range definitions {
		creating.Go(func() error {
			_, err := crds.Create(creatingContext, crd, metav1.CreateOptions{})
			return err
		})
	}
	if err := creating.Wait(); err != nil {
		return err
	}
	missing := len(definitions)
	err = wait.PollUntilContextTimeout(ctx, lookInterval, establishTimeout, true, func(ctx context.Context) (bool, error) {
		missing = 0
		pages := pager.New(pager.SimplePageFunc(func(o metav1.ListOptions) (runtime.Object, error) { return crds.List(ctx, o) }))
		pages.PageSize = pageSize
		err := pages.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
			if !apihelpers.IsCRDConditionTrue(object.(*apiextensionsv1.CustomResourceDefinition), apiextensionsv1.Established) {
				missing++
			}
			return nil
		})
		return err == nil && missing == 0, err
	})
	if err != nil {
		return fmt.Errorf("%d of %d definitions are not established: %w", missing, len(definitions), err)
	}
	return nil
}

// memory measures extensions, its partitions and the aggregator. The sum leaves out the empty partition and the aggregator.
func memory(ctx context.Context, tripod *framework.Tripod, client *load.Client) (table.Table, error) {
	t := table.Table{Header: []string{"process", "live heap", "anonymous", "proportional", "resident"}}
	statuses, err := tripod.Status(ctx)
	if err != nil {
		return t, err
	}
	var sum process.Memory
	sumOfHeaps := 0.0
	for _, s := range statuses {
		if !strings.HasPrefix(s.Component, extensions) && s.Component != aggregator {
			continue
		}
		m, err := process.Process{Service: s.Component, PID: s.PID}.Memory()
		if err != nil {
			return t, err
		}
		heap, err := liveHeap(ctx, client, s.Component)
		if err != nil {
			return t, err
		}
		t.Rows = append(t.Rows, row(s.Component, heap, m))
		if s.Component != extensions+"-"+empty && s.Component != aggregator {
			sum.Anonymous, sum.Proportional, sum.Resident = sum.Anonymous+m.Anonymous, sum.Proportional+m.Proportional, sum.Resident+m.Resident
			sumOfHeaps += heap
		}
	}
	t.Rows = append(t.Rows, row("sum of extensions, without the empty one", sumOfHeaps, sum))
	return t, nil
}

func row(name string, heap float64, m process.Memory) []string {
	cells := []string{name}
	for _, n := range []float64{heap, m.Anonymous, m.Proportional, m.Resident} {
		cells = append(cells, fmt.Sprintf("%.0f", n))
	}
	return cells
}

var heapAlloc = regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)$`)

// liveHeap returns the size of all objects that a garbage collection leaves, in MB.
func liveHeap(ctx context.Context, client *load.Client, service string) (float64, error) {
	profile, err := profileOf(ctx, client, service, "heap?gc=1&debug=1")
	if err != nil {
		return 0, err
	}
	found := heapAlloc.FindSubmatch(profile)
	if found == nil {
		return 0, fmt.Errorf("the heap profile of %s has no size", service)
	}
	bytes, err := strconv.ParseFloat(string(found[1]), 64)
	return bytes / 1e6, err
}

// profileOf takes a profile of a service. The query has its kind, and what it is to be like.
func profileOf(ctx context.Context, client *load.Client, service, query string) ([]byte, error) {
	path := "/debug/pprof/" + query + "&service=" + service
	profile, err := client.Read(ctx, load.Request{Method: http.MethodGet, Path: path, Accept: "*/*"})
	if err != nil {
		return nil, fmt.Errorf("cannot take a profile of %s: %w", service, err)
	}
	return profile, nil
}
