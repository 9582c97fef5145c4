// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/manager"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tripod-k8s/tripod/lab/bench/load"
	"github.com/tripod-k8s/tripod/lab/bench/process"
	"github.com/tripod-k8s/tripod/lab/bench/schemas"
	"github.com/tripod-k8s/tripod/test/framework"
)

const (
	// teamGroup has the definitions of the team that is measured, and widgetGroup the objects that clients of the other team use. All groups
	// of the other team end in one suffix.
	teamGroup   = "team.example.org"
	otherSuffix = "bench.tripod.example"
	widgetGroup = "widgets." + otherSuffix

	partition = "provider"
	// connections is how many HTTP/2 connections each kind of client shares.
	connections  = 4
	creators     = 8
	recoverLimit = 3 * time.Minute
)

// side is one way to serve both teams.
type side struct {
	name, color string
	start       func(ctx context.Context, env *framework.Environment) (*target, error)
	// cpus is how many processors the processes of the other team may use together. 0 is no limit.
	cpus float64
}

func (o *options) sides() []side {
	all := []side{{"kube-apiserver", "#c0392b", startStock, 0}, {"Tripod", "#2471a3", startTripod, 0}}
	if o.cpus > 0 {
		all = append(all, side{"Tripod with a limit", "#1e8449", startTripod, o.cpus})
	}
	return all
}

// target is a running side.
type target struct {
	*framework.Cluster
	admin *load.Client
	// etcd has the objects of the other team.
	etcd pb.MaintenanceClient
	// processes returns the processes that serve the custom resources of the other team.
	processes func(context.Context) ([]int, error)
	// revive starts such a process again if it has ended, as a kubelet would, and reports whether it had.
	revive func(context.Context) (bool, error)
	// definitions are those of the other team with schemas.
	definitions []*apiextensionsv1.CustomResourceDefinition

	etcdClient *clientv3.Client
}

func (t *target) close() {
	t.admin.Close()
	t.etcdClient.Close() //nolint:errcheck // nothing is pending
}

// newGroup makes a control group with a limit, as limits.cpu of a pod does.
func newGroup(cpus float64) (cgroups.Manager, error) {
	const period = 100 * time.Millisecond // the one of Kubernetes
	resources := &cgroups.Resources{
		CpuPeriod: uint64(period.Microseconds()), CpuQuota: int64(cpus * float64(period.Microseconds())), SkipDevices: true,
	}
	group, err := manager.New(&cgroups.Cgroup{Path: fmt.Sprintf("/tripod-isolation-%d", os.Getpid()), Resources: resources})
	if err == nil {
		err = group.Apply(-1)
	}
	if err == nil {
		err = group.Set(resources)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot make a control group, which needs root (-cpus 0 leaves the limit out): %w", err)
	}
	return group, nil
}

// confine moves the processes of the other team to a control group, now and at each later look.
func (t *target) confine(ctx context.Context, group cgroups.Manager) error {
	processes := t.processes
	t.processes = func(ctx context.Context) ([]int, error) {
		pids, err := processes(ctx)
		for _, pid := range pids {
			if err := group.Apply(pid); err != nil && !errors.Is(err, syscall.ESRCH) {
				return nil, fmt.Errorf("cannot move process %d to the control group: %w", pid, err)
			}
		}
		return pids, err
	}
	_, err := t.processes(ctx)
	return err
}

// connect makes the clients of a target.
func (t *target) connect(etcd string) (_ *target, err error) {
	if t.etcdClient, err = clientv3.New(clientv3.Config{Endpoints: []string{etcd}}); err != nil {
		return nil, fmt.Errorf("cannot make a client for etcd: %w", err)
	}
	t.etcd = pb.NewMaintenanceClient(t.etcdClient.ActiveConnection())
	t.admin, err = load.NewClient(t.Admin(), connections)
	return t, err
}

func startStock(ctx context.Context, env *framework.Environment) (*target, error) {
	stock, err := env.StartStock(ctx, framework.StockOptions{})
	if err != nil {
		return nil, err
	}
	t := &target{
		Cluster:   stock.Cluster,
		processes: func(context.Context) ([]int, error) { return []int{stock.Process.PID()}, nil },
		revive: func(ctx context.Context) (bool, error) {
			select {
			case <-stock.Process.Done():
				return true, stock.Restart(ctx)
			default:
				return false, nil
			}
		},
	}
	return t.connect(stock.EtcdURL)
}

func startTripod(ctx context.Context, env *framework.Environment) (*target, error) {
	var urls []string
	for _, name := range []string{"etcd-of-all", "etcd-of-" + partition} {
		dir := filepath.Join(env.Dir, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
		url, err := env.StartEtcd(ctx, dir)
		if err != nil {
			return nil, err
		}
		urls = append(urls, url)
	}
	tripod, err := env.StartTripod(ctx, framework.TripodOptions{Args: []string{
		"--etcd-servers=" + urls[0], "--extensions-partition=" + partition + "=*." + otherSuffix,
		"--extensions-partition-etcd-servers=" + partition + "=" + urls[1],
	}})
	if err != nil {
		return nil, err
	}
	last := 0
	t := &target{Cluster: tripod.Cluster, processes: func(context.Context) ([]int, error) { return ofPartition(tripod.Process.PID()) }}
	// `tripod up` starts it again by itself.
	t.revive = func(ctx context.Context) (bool, error) {
		pids, err := t.processes(ctx)
		if err != nil || len(pids) == 0 || pids[0] == last {
			return false, err
		}
		revived := last != 0
		last = pids[0]
		return revived, nil
	}
	return t.connect(urls[1])
}

// define creates the definitions of both teams, and returns when all are served.
func (t *target) define(ctx context.Context, o *options) error {
	team := schemas.Generate(o.few)
	for _, crd := range team {
		crd.Spec.Group = teamGroup
		crd.Name = crd.Spec.Names.Plural + "." + teamGroup
	}
	t.definitions = schemas.Generate(o.definitions)
	client, err := apiextensions.NewForConfig(t.Admin())
	if err != nil {
		return err
	}
	crds := client.ApiextensionsV1().CustomResourceDefinitions()
	creating, creatingContext := errgroup.WithContext(ctx)
	creating.SetLimit(creators)
	all := append([]*apiextensionsv1.CustomResourceDefinition{widget(teamGroup), widget(widgetGroup)}, team...)
	all = append(all, t.definitions...)
	for _, crd := range all {
		creating.Go(func() error {
			_, err := crds.Create(creatingContext, crd, metav1.CreateOptions{})
			return err
		})
	}
	if err := creating.Wait(); err != nil {
		return err
	}
	for _, crd := range all {
		// Discovery, because a request for objects makes the server create a storage, and most kinds of a provider have no objects.
		path := "/apis/" + crd.Spec.Group + "/v1"
		if err := framework.Poll(ctx, crd.Name+" is served", func(ctx context.Context) error {
			answer, err := t.admin.Read(ctx, load.Request{Method: http.MethodGet, Path: path})
			return has(answer, crd.Spec.Names.Plural, err)
		}); err != nil {
			return err
		}
	}
	return nil
}

// recover returns when objects of both teams can be written.
func (t *target) recover(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, recoverLimit)
	defer cancel()
	return framework.Poll(ctx, "all is well again", func(ctx context.Context) error {
		if _, err := t.revive(ctx); err != nil {
			return err
		}
		for _, s := range subjects() {
			if err := t.admin.Do(ctx, s.apply("recovered")); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
		return nil
	})
}

// widget returns a small definition.
func widget(group string) *apiextensionsv1.CustomResourceDefinition {
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"data": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"text": text, "sent": text}},
					},
				}},
			}},
		},
	}
}

// ofPartition returns the processes of the partition that `tripod up` has started. `tripod status` would say so, too, but is work for the processors
// that are measured.
func ofPartition(up int) (pids []int, err error) {
	started, err := process.Process{Service: "tripod up", PID: up}.Children()
	for _, p := range started {
		if line, err := p.CommandLine(); err == nil && slices.Contains(line, "--partition="+partition) { // it may have ended
			pids = append(pids, p.PID)
		}
	}
	return pids, err
}
