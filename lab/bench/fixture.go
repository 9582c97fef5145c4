// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/lab/bench/load"
	"github.com/tripod-k8s/tripod/test/framework"
)

// Credentials of requests. RBAC authorizes both: neither belongs to system:masters.
const (
	certificates = "certificates"
	tokens       = "tokens"
)

const (
	// namespace has the objects that are read and written one by one, listNamespace the objects that are listed.
	namespace     = "bench"
	listNamespace = "bench-list"
	listLength    = 500
	// objectsEach is how many objects each workload reads or writes.
	objectsEach = 100
	fillTimeout = time.Minute
	// attempts is how often a request is sent that the server cannot answer for now, with a pause after each.
	attempts     = 50
	attemptPause = 100 * time.Millisecond
	// connections is how many HTTP/2 connections the requests share, as if a few controllers sent them.
	connections = 8
)

// fixture is what workloads need in a cluster.
type fixture struct {
	*cluster
	admin   *load.Client
	configs map[string]*rest.Config
	clients map[string]*load.Client
	names   atomic.Int64
	// created are objects that DELETE may delete.
	created map[string]*names
}

// names are names of objects that exist.
type names struct {
	mu   sync.Mutex
	list []string
}

func (n *names) add(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, name)
}

func (n *names) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.list)
}

// take removes a name, and reports whether there was one.
func (n *names) take() (string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.list) == 0 {
		return "", false
	}
	name := n.list[len(n.list)-1]
	n.list = n.list[:len(n.list)-1]
	return name, true
}

// setUp creates users, namespaces, the custom resource and the objects that are read.
func (c *cluster) setUp(ctx context.Context, of ...resource) (*fixture, error) {
	f := &fixture{cluster: c, configs: map[string]*rest.Config{}, clients: map[string]*load.Client{}, created: map[string]*names{}}
	var err error
	if f.admin, err = load.NewClient(c.Admin(), connections); err != nil {
		return nil, err
	}
	for _, request := range manifests() {
		if err := f.admin.Do(ctx, request); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", c.side.Name, request.Path, err)
		}
	}
	if err := f.addUsers(ctx); err != nil {
		return nil, err
	}
	for _, r := range of {
		f.created[r.Name] = &names{}
		list := load.Request{Path: r.collection(namespace), Method: http.MethodGet}
		if err := framework.Poll(ctx, r.Name+" are served", func(ctx context.Context) error { return f.admin.Do(ctx, list) }); err != nil {
			return nil, err
		}
		if err := f.fill(ctx, r); err != nil {
			return nil, fmt.Errorf("%s: cannot make %s: %w", c.side.Name, r.Name, err)
		}
	}
	return f, nil
}

// fill creates the objects that are read.
func (f *fixture) fill(ctx context.Context, r resource) error {
	if err := f.times(ctx, listLength, func(ctx context.Context, i int) error {
		return f.insist(ctx, r.create(listNamespace, fmt.Sprintf("list-%d", i)))
	}); err != nil {
		return err
	}
	return f.times(ctx, objectsEach, func(ctx context.Context, i int) error {
		return f.insist(ctx, r.create(namespace, fmt.Sprintf("get-%d", i)))
	})
}

// insist sends a request that is not measured, and again what the server cannot do for now, as client-go does. kube-apiserver does not
// repeat a write that an aggregated API server refuses because it closes the connection, such a server knows no user until it has read how
// clients are authenticated, and Tripod answers 503 while it takes the only replica for frozen.
func (f *fixture) insist(ctx context.Context, r load.Request) error {
	passing := []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusServiceUnavailable}
	for attempt := 1; ; attempt++ {
		err := f.admin.Do(ctx, r)
		var refused *load.StatusError
		if attempt == attempts || !errors.As(err, &refused) || !slices.Contains(passing, refused.Code) {
			return err
		}
		fmt.Fprintf(os.Stderr, "%s: %s %s: %v; once more\n", f.side.Name, r.Method, r.Path, err)
		if err := pause(ctx, attemptPause); err != nil {
			return err
		}
	}
}

// times calls do n times, several at a time.
func (f *fixture) times(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	var next atomic.Int64
	result := load.Saturate(ctx, closedClients, fillTimeout, func(ctx context.Context) error {
		i := int(next.Add(1)) - 1
		if i >= n {
			return load.ErrNoMore
		}
		return do(ctx, i)
	})
	return errors.Join(result.Error, ctx.Err())
}

func (f *fixture) addUsers(ctx context.Context) error {
	user, err := f.UserConfig("bench")
	if err != nil {
		return err
	}
	answer, err := f.admin.Read(ctx, load.Request{
		Method: http.MethodPost, Path: "/api/v1/namespaces/" + namespace + "/serviceaccounts/bench/token",
		Body: []byte(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":7200}}`),
	})
	if err != nil {
		return fmt.Errorf("cannot get a token: %w", err)
	}
	var token struct{ Status struct{ Token string } }
	if err := json.Unmarshal(answer, &token); err != nil {
		return fmt.Errorf("cannot get a token: %w", err)
	}
	account := f.Anonymous()
	account.BearerToken = token.Status.Token
	f.configs[certificates], f.configs[tokens] = user, account
	for name, config := range f.configs {
		if f.clients[name], err = load.NewClient(config, connections); err != nil {
			return err
		}
	}
	return nil
}

// close closes the connections, and the cluster.
func (f *fixture) close() error {
	f.admin.Close()
	for _, client := range f.clients {
		client.Close()
	}
	return f.cluster.close()
}

// manifests are what exists before the objects.
func manifests() []load.Request {
	return []load.Request{
		post("/api/v1/namespaces", `{"metadata":{"name":"`+namespace+`"}}`),
		post("/api/v1/namespaces", `{"metadata":{"name":"`+listNamespace+`"}}`),
		post("/api/v1/namespaces/"+namespace+"/serviceaccounts", `{"metadata":{"name":"bench"}}`),
		post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{"metadata":{"name":"bench"},
			"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},
			"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"bench"},
				{"kind":"ServiceAccount","namespace":"`+namespace+`","name":"bench"}]}`),
		post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"metadata":{"name":"widgets.bench.tripod.example"},
			"spec":{"group":"bench.tripod.example","scope":"Namespaced",
				"names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},
				"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{
					"spec":{"type":"object","properties":{"text":{"type":"string","maxLength":4096},"sent":{"type":"string"}}}}}}}]}}`),
	}
}
