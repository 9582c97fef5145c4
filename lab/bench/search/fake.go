// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// fake is a cluster that has applications that are not stored. It knows what search asks of a cluster: discovery, streaming lists, watches, and lists that
// only show that it answers.
type fake struct {
	cluster, apps int
	url           string
	// lists counts the complete lists that were sent.
	lists atomic.Int64
}

func fakeName(cluster int) string { return fmt.Sprintf("member-%d", cluster) }

// fakeKind is a resource of a fake.
type fakeKind struct {
	name string
	// each is how many an application has.
	each   int
	object func(a app, i int) runtime.Object
}

// fakeKinds are the resources by their paths.
var fakeKinds = map[string]fakeKind{
	"/apis/apps/v1/deployments": {"Deployment", 1, func(a app, _ int) runtime.Object { return a.deployment() }},
	"/apis/apps/v1/replicasets": {"ReplicaSet", 1, func(a app, _ int) runtime.Object { return a.replicaSet() }},
	"/api/v1/pods":              {"Pod", podsEach, func(a app, i int) runtime.Object { return a.podObject(i) }},
	"/api/v1/services":          {"Service", 1, func(a app, _ int) runtime.Object { return a.service() }},
	"/api/v1/configmaps":        {"ConfigMap", 1, func(a app, _ int) runtime.Object { return a.configMap() }},
}

// startFake serves a cluster until the context ends.
func startFake(ctx context.Context, cluster, apps int) (*fake, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &fake{cluster: cluster, apps: apps, url: "http://" + listener.Addr().String()}
	server := &http.Server{Handler: f, ReadHeaderTimeout: time.Minute, BaseContext: func(net.Listener) context.Context { return ctx }}
	context.AfterFunc(ctx, func() { server.Close() }) //nolint:errcheck // it ends
	go server.Serve(listener)                         //nolint:errcheck // it ends with the context
	return f, nil
}

// ServeHTTP implements http.Handler.
func (f *fake) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if kind, known := fakeKinds[req.URL.Path]; known {
		f.serve(w, req, kind)
		return
	}
	answers := map[string]any{
		"/version": map[string]string{"gitVersion": "v1.36.3"},
		"/api":     metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}},
		"/apis": metav1.APIGroupList{Groups: []metav1.APIGroup{{
			Name: "apps", Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: "apps/v1", Version: "v1"}}, PreferredVersion: metav1.GroupVersionForDiscovery{GroupVersion: "apps/v1", Version: "v1"},
		}}},
		"/api/v1":       list("v1", "pods", "Pod", "services", "Service", "configmaps", "ConfigMap"),
		"/apis/apps/v1": list("apps/v1", "deployments", "Deployment", "replicasets", "ReplicaSet"),
	}
	answer, known := answers[req.URL.Path]
	if !known {
		http.NotFound(w, req)
		return
	}
	json.NewEncoder(w).Encode(answer) //nolint:errcheck // the client is gone
}

func list(version string, names ...string) metav1.APIResourceList {
	l := metav1.APIResourceList{GroupVersion: version}
	for i := 0; i < len(names); i += 2 {
		l.APIResources = append(l.APIResources, metav1.APIResource{Name: names[i], Kind: names[i+1], Namespaced: true, Verbs: []string{"get", "list", "watch"}})
	}
	return l
}

func (f *fake) serve(w http.ResponseWriter, req *http.Request, kind fakeKind) {
	values := req.URL.Query()
	version := kind.version(f.apps)
	if values.Get("watch") == "" {
		fmt.Fprintf(w, `{"kind": "%sList", "metadata": {"resourceVersion": %q}, "items": []}`, kind.name, version)
		return
	}
	encoder := json.NewEncoder(w)
	if values.Get("sendInitialEvents") == "true" {
		f.lists.Add(1)
		for n := range f.apps * kind.each {
			if encoder.Encode(map[string]any{"type": "ADDED", "object": kind.at(f.cluster, n)}) != nil {
				return // the client is gone
			}
		}
		fmt.Fprintf(w, `{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": %q, "annotations": {%q: "true"}}}}`+"\n", version, metav1.InitialEventsAnnotationKey)
	}
	for {
		w.(http.Flusher).Flush()
		select {
		case <-req.Context().Done():
			return
		case <-time.After(time.Minute):
			fmt.Fprintf(w, `{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": %q}}}`+"\n", version)
		}
	}
}

// kubeconfig returns how to reach the cluster.
func (f *fake) kubeconfig() []byte {
	return fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": [{"name": "c", "cluster": {"server": %q}}],
		"users": [{"name": "c", "user": {"token": "t"}}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}]}`, f.url)
}
