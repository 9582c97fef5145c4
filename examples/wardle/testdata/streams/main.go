// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command streams is an API service with subresources whose requests last: a stream and a tunnel. The same stream is also a subresource
// that is not declared as long-running.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	metainternal "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/tripod-k8s/tripod/apiservice"
	"github.com/tripod-k8s/tripod/examples/wardle/openapi"
	"github.com/tripod-k8s/tripod/examples/wardle/v1beta1"
)

var version = schema.GroupVersion{Group: "streams.example.com", Version: "v1"}

func main() {
	custom := func(name string, longRunning bool, storage rest.Storage) apiservice.Resource {
		return apiservice.Custom{
			Name: name, LongRunning: longRunning, Example: &v1beta1.Flunder{},
			New: func(*apiservice.Environment) (rest.Storage, error) { return storage, nil },
		}
	}
	resource := schema.GroupResource{Group: version.Group, Resource: "flunders"}
	os.Exit(apiservice.Main(apiservice.Service{
		Name:        "streams",
		Description: "streams serves streams and tunnels.",
		AddToScheme: []func(*runtime.Scheme) error{func(s *runtime.Scheme) error {
			s.AddKnownTypes(version, &v1beta1.Flunder{}, &v1beta1.FlunderList{})
			metav1.AddToGroupVersion(s, version)
			return nil
		}},
		Definitions: openapi.GetOpenAPIDefinitions,
		Groups: []apiservice.Group{{
			Name:     version.Group,
			Versions: []string{version.Version},
			Resources: []apiservice.Resource{
				custom("flunders", false, &flunders{rest.NewDefaultTableConvertor(resource)}),
				custom("flunders/ticks", true, subresource{ticks}),
				custom("flunders/console", true, subresource{console}),
				custom("flunders/slow", false, subresource{ticks}),
			},
		}},
	}))
}

// flunders has none.
type flunders struct{ rest.TableConvertor }

var (
	_ rest.Lister               = &flunders{}
	_ rest.Scoper               = &flunders{}
	_ rest.SingularNameProvider = &flunders{}
)

func (f *flunders) New() runtime.Object     { return &v1beta1.Flunder{} }
func (f *flunders) NewList() runtime.Object { return &v1beta1.FlunderList{} }
func (f *flunders) Destroy()                {}
func (f *flunders) NamespaceScoped() bool   { return false }
func (f *flunders) GetSingularName() string { return "flunder" }

func (f *flunders) List(context.Context, *metainternal.ListOptions) (runtime.Object, error) {
	return &v1beta1.FlunderList{}, nil
}

// subresource answers requests by a function.
type subresource struct{ http.HandlerFunc }

var _ rest.Connecter = subresource{}

func (s subresource) New() runtime.Object                               { return &v1beta1.Flunder{} }
func (s subresource) Destroy()                                          {}
func (s subresource) ConnectMethods() []string                          { return []string{http.MethodGet, http.MethodPost} }
func (s subresource) NewConnectOptions() (runtime.Object, bool, string) { return nil, false, "" }

func (s subresource) Connect(context.Context, string, runtime.Object, rest.Responder) (http.Handler, error) {
	return s, nil
}

// ticks sends a line several times a second: how long it has lasted.
func ticks(w http.ResponseWriter, req *http.Request) {
	began, ticker := time.Now(), time.NewTicker(100*time.Millisecond)
	defer ticker.Stop()
	w.Header().Set("Content-Type", "text/plain")
	for {
		if _, err := fmt.Fprintln(w, time.Since(began)); err != nil {
			return
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			return
		}
		select {
		case <-ticker.C:
		case <-req.Context().Done():
			return
		}
	}
}

// console accepts any protocol, and returns what it is sent.
func console(w http.ResponseWriter, req *http.Request) {
	protocol := req.Header.Get("Upgrade")
	if protocol == "" {
		http.Error(w, "send Upgrade", http.StatusBadRequest)
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close() //nolint:errcheck // the client may have closed it
	defer context.AfterFunc(req.Context(), func() { _ = conn.Close() })()
	if _, err := fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", protocol); err != nil {
		return
	}
	_, _ = io.Copy(conn, buffered) // until either side closes it
}
