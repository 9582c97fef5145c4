// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tripod-k8s/tripod/lab/bench/load"
	"github.com/tripod-k8s/tripod/lab/bench/process"
	"github.com/tripod-k8s/tripod/lab/bench/table"
	"github.com/tripod-k8s/tripod/test/framework"
)

// The programs that serve flunders: that of Kubernetes, and ours.
const (
	sampleServer = "test-assets/sample-apiserver"
	wardle       = "wardle"
)

// The ways to an API service of others, beside stock: as an aggregated API server behind Tripod, and as a backend of Tripod.
const (
	aggregated = "aggregated"
	ownBackend = "backend"
)

const (
	// While a replica dies, clients send so many GETs a second: for a moment before, and for a while after.
	failoverRate            = 200
	beforeDeath, afterDeath = time.Second, 10 * time.Second
	failoverTimeout         = 2 * time.Second
	revocations             = 5
	enableAggregatorRouting = "--enable-aggregator-routing"
	flundersService         = "flunders"
	flundersPort            = 443
	rightsPath              = "/apis/rbac.authorization.k8s.io/v1/namespaces/" + namespace
	reader                  = "reader"
	readerOfFlunders        = rightsPath + "/rolebindings/" + reader
)

// apiServiceSides are the ways that are compared.
func apiServiceSides() []side {
	return []side{{Name: stock, flunders: sampleServer}, {Name: aggregated, flunders: sampleServer}, {Name: ownBackend, flunders: wardle}}
}

// apiServiceWorkloads are the requests to an API service of others.
func apiServiceWorkloads() []workload {
	all := slices.DeleteFunc(requests(flunders, certificates), func(w workload) bool {
		return !slices.Contains([]string{"GET", "LIST 500 JSON RV=0", "CREATE"}, w.Name)
	})
	for i := range all {
		all[i].Resource, all[i].Credentials = flunders.Name, certificates
	}
	return append(all, fanOut(flunders, 1000))
}

// apiServices is what was found about API services of others.
type apiServices struct {
	*report
	// Failovers and Revocations have what happened in each round on each side. Revocations are in milliseconds.
	Failovers   map[string][]failover
	Revocations map[string][]float64
}

// failover is what clients see when one of two replicas dies.
type failover struct {
	// Requests ended after the death, and Failed of them failed.
	Requests, Failed int64
	// Seconds are from the death to the last failed request. Endless is set if requests still fail at the end.
	Seconds float64
	Endless bool
}

// measureAPIServices compares the ways to an API service of others.
func (o *options) measureAPIServices(ctx context.Context, r *report) error {
	r.APIServices = o.newAPIServices()
	return inRounds(o.rounds, r.APIServices.sides, func(round int, s side) error {
		o.logf("API services, round %d of %d: %s", round, o.rounds, s.Name)
		if err := s.apiServiceRound(ctx, o, r.APIServices); err != nil {
			return fmt.Errorf("API services: %s: %w", s.Name, err)
		}
		return nil
	})
}

func (o *options) newAPIServices() *apiServices {
	of := *o
	of.sides = apiServiceSides()
	return &apiServices{report: newReport(&of), Failovers: map[string][]failover{}, Revocations: map[string][]float64{}}
}

// apiServiceRound starts a side with an API service, and measures it.
func (s side) apiServiceRound(ctx context.Context, o *options, l *apiServices) (err error) {
	var args []string
	if s.flunders == sampleServer {
		args = []string{enableAggregatorRouting} // nothing else reaches both replicas
	}
	f, err := s.open(ctx, []resource{flunders}, nil, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	if err := pause(ctx, settle); err != nil {
		return err
	}
	doingNothing, err := f.idle(ctx)
	if err != nil {
		return err
	}
	l.Idle[s.Name] = append(l.Idle[s.Name], doingNothing)
	for _, w := range apiServiceWorkloads() {
		v, err := w.run(ctx, f, o)
		if err != nil {
			return fmt.Errorf("%s: %w", w, err)
		}
		l.add(s, w, alone, v)
	}
	for range revocations {
		took, err := f.revoke(ctx)
		if err != nil {
			return fmt.Errorf("remove a RoleBinding: %w", err)
		}
		l.Revocations[s.Name] = append(l.Revocations[s.Name], took.Seconds()*1e3)
	}
	died, err := f.failOver(ctx)
	if err != nil {
		return fmt.Errorf("kill a replica: %w", err)
	}
	l.Failovers[s.Name] = append(l.Failovers[s.Name], died)
	f.failed = false
	return nil
}

// addReplicas counts processes of the API service as part of the side.
func (c *cluster) addReplicas(processes ...*framework.Process) {
	for _, p := range processes {
		c.replicas = append(c.replicas, p)
		c.servers = append(c.servers, process.Process{Service: fmt.Sprintf("%s-%d", wardle, len(c.replicas)), PID: p.PID()})
	}
}

// addSampleServer starts two replicas of an aggregated API server, and registers it.
func (c *cluster) addSampleServer(ctx context.Context) error {
	server, err := c.env.PrepareSampleServer(ctx, c.Cluster)
	if err != nil {
		return err
	}
	host, err := framework.FindHostAddress()
	if err != nil {
		return err
	}
	admin, err := load.NewClient(c.Admin(), 1)
	if err != nil {
		return err
	}
	defer admin.Close()
	services := "/api/v1/namespaces/" + server.Namespace + "/services"
	manifests := []load.Request{post(services, fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"ports":[{"name":"https","port":%d}]}}`, flundersService, flundersPort))}
	for i := range 2 {
		port, err := framework.FreePort()
		if err != nil {
			return err
		}
		replica, err := c.env.Start(server.Command(fmt.Sprintf("sample-%d", i+1), port))
		if err != nil {
			return err
		}
		c.addReplicas(replica)
		manifests = append(manifests, post("/apis/discovery.k8s.io/v1/namespaces/"+server.Namespace+"/endpointslices", fmt.Sprintf(
			`{"metadata":{"name":"sample-%d","labels":{"kubernetes.io/service-name":%q}},"addressType":"IPv4","ports":[{"name":"https","port":%d}],
				"endpoints":[{"addresses":[%q],"conditions":{"ready":true}}]}`, i+1, flundersService, port, host)))
	}
	manifests = append(manifests, post("/apis/apiregistration.k8s.io/v1/apiservices", fmt.Sprintf(
		`{"metadata":{"name":"v1alpha1.wardle.example.com"},"spec":{"group":"wardle.example.com","version":"v1alpha1","groupPriorityMinimum":1000,
			"versionPriority":15,"service":{"namespace":%q,"name":%q,"port":%d},"caBundle":%q}}`,
		server.Namespace, flundersService, flundersPort, base64.StdEncoding.EncodeToString(server.CA))))
	for _, request := range manifests {
		if err := admin.Do(ctx, request); err != nil {
			return fmt.Errorf("%s: %w", request.Path, err)
		}
	}
	return nil
}

// failOver kills a replica of the API service while clients read.
func (f *fixture) failOver(ctx context.Context) (failover, error) {
	var result failover
	var ended, failed, last atomic.Int64
	get := gets(flunders, f.clients[certificates])
	read := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, failoverTimeout)
		defer cancel()
		if get(ctx) != nil {
			failed.Add(1)
			last.Store(time.Now().UnixNano())
		}
		ended.Add(1)
		return nil
	}
	done := make(chan *load.Result, 1)
	go func() {
		done <- load.Offer(ctx, load.Offered{PerSecond: failoverRate, Duration: beforeDeath + afterDeath, Workers: openWorkers}, read)
	}()
	if err := pause(ctx, beforeDeath); err != nil {
		return result, errors.Join(err, (<-done).Error)
	}
	if n := failed.Load(); n > 0 {
		return result, errors.Join(fmt.Errorf("%d requests failed before it", n), (<-done).Error)
	}
	victim := f.replicas[0]
	before, died := ended.Load(), time.Now()
	if err := victim.Signal(syscall.SIGKILL); err != nil {
		return result, errors.Join(err, (<-done).Error)
	}
	<-victim.Done()
	result.Requests = (<-done).Requests - before
	result.Failed = failed.Load()
	if result.Failed > 0 {
		result.Seconds = max(time.Unix(0, last.Load()).Sub(died).Seconds(), 0)
		result.Endless = result.Seconds > afterDeath.Seconds()*0.95
	}
	return result, ctx.Err()
}

// revoke takes a right from a user, and returns how long it takes until the user gets 403.
func (f *fixture) revoke(ctx context.Context) (time.Duration, error) {
	config, err := f.UserConfig(reader)
	if err != nil {
		return 0, err
	}
	user, err := load.NewClient(config, 1)
	if err != nil {
		return 0, err
	}
	defer user.Close()
	for _, right := range []load.Request{
		post(rightsPath+"/roles", `{"metadata":{"name":"`+reader+`"},"rules":[{"apiGroups":["wardle.example.com"],"resources":["flunders"],"verbs":["get"]}]}`),
		post(rightsPath+"/rolebindings", `{"metadata":{"name":"`+reader+`"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"`+reader+`"},
			"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"`+reader+`"}]}`),
	} {
		var status *load.StatusError
		if err := f.admin.Do(ctx, right); err != nil && (!errors.As(err, &status) || status.Code != http.StatusConflict) {
			return 0, err
		}
	}
	read := flunders.get(namespace, "get-0")
	if err := framework.Poll(ctx, "the right is in force", func(ctx context.Context) error { return user.Do(ctx, read) }); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	forbidden := make(chan time.Time, 1)
	go func() {
		defer close(forbidden)
		for ctx.Err() == nil {
			var status *load.StatusError
			if err := user.Do(ctx, read); errors.As(err, &status) && status.Code == http.StatusForbidden {
				forbidden <- time.Now()
				return
			}
		}
	}()
	removed := time.Now()
	if err := f.admin.Do(ctx, load.Request{Method: http.MethodDelete, Path: readerOfFlunders}); err != nil {
		cancel()
		<-forbidden
		return 0, err
	}
	at, ok := <-forbidden
	if !ok {
		return 0, errors.New("the user keeps the right")
	}
	return at.Sub(removed), nil
}

func post(path, body string) load.Request {
	return load.Request{Method: http.MethodPost, Path: path, Body: []byte(body)}
}

// aims are about API services of Tripod, compared with aggregated API servers behind stock.
func (l *apiServices) aims() []aim {
	all := []aim{
		l.rowAim("CPU per GET, LIST, CREATE of an API service", 0.6, alone, cpuPerRequest, ""),
		l.rowAim("the same of 16 busy clients", 0.6, alone, cpuWhenBusy, ""),
		l.rowAim("CPU per watch event delivered to 1,000 watchers", 0.6, alone, cpuPerEvent, ""),
	}
	for _, a := range all {
		delete(a.Found, aggregated)
	}
	return slices.DeleteFunc(all, func(a aim) bool { return len(a.Found) == 0 })
}

// tables returns the tables about API services.
func (l *apiServices) tables() []table.Table {
	const title = "An API service of others"
	aims := (&report{sides: []side{{Name: stock}, {Name: ownBackend}}, Aims: l.Aims}).aimTable()
	aims.Title = title + ": aims, the worst ratio to an aggregated API server behind stock"
	all := []table.Table{
		l.workloadTable(title+": stock has it aggregated behind kube-apiserver, \"aggregated\" is the same behind Tripod, \"backend\" is ours as a backend of Tripod",
			func(one *row) bool { return !one.fanOut }, cpuPerRequest, cpuWhenBusy, p50, p99, perSecond),
		l.workloadTable(title+": watches, 1,000 watchers, 20 events a second to each", func(one *row) bool { return one.fanOut }, cpuPerEvent, p50, p99),
		l.eventTable(title + ": doing nothing, a replica of two dies, a right is removed"), aims,
	}
	return slices.DeleteFunc(all, func(t table.Table) bool { return len(t.Rows) == 0 })
}

// eventTable shows how fast each side receives events.
func (l *apiServices) eventTable(title string) table.Table {
	t := table.Table{Title: title, Header: []string{
		"", "idle, % of a CPU", "s from kill -9 to the last failed request", "each", "failed of the requests since",
		"ms from removing the RoleBinding to the first 403", "at most",
	}}
	for _, s := range l.sides {
		died, revoked := l.Failovers[s.Name], l.Revocations[s.Name]
		if len(died) == 0 || len(revoked) == 0 {
			continue
		}
		var seconds []float64
		var each []string
		var failed, requests int64
		for _, one := range died {
			seconds, each = append(seconds, one.Seconds), append(each, one.String())
			failed, requests = failed+one.Failed, requests+one.Requests
		}
		t.Rows = append(t.Rows, []string{
			s.Name, table.Number(100 * table.Median(l.Idle[s.Name])), table.Number(table.Median(seconds)), fmt.Sprint(each), fmt.Sprintf("%d of %d", failed, requests),
			table.Number(table.Median(revoked)), table.Number(slices.Max(revoked)),
		})
	}
	return t
}

// String returns how long requests failed.
func (f failover) String() string {
	switch {
	case f.Failed == 0:
		return "none failed"
	case f.Endless:
		return fmt.Sprintf("still after %.0f", afterDeath.Seconds())
	}
	return fmt.Sprintf("%.2f", f.Seconds)
}
