// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tracing collects the spans of requests, and demands that each request leaves one trace, from the public endpoint to etcd,
// as it does with kube-apiserver.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/both"
)

var manifests = framework.CRD{Kind: "Widget", Schema: "{type: object}"}.String() + `---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: everybody}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}]
`

// requests are one for what each service serves that has etcd write.
var requests = map[string]struct {
	path, body string
	// services is how many of Tripod's serve it, one for the other.
	services int
}{
	"core": {
		path: "/api/v1/namespaces/default/configmaps", services: 2,
		body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME"}}`,
	},
	"extensions": {
		path: "/apis/example.com/v1/namespaces/default/widgets", services: 2,
		body: `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"NAME"}}`,
	},
	"aggregator": {
		path: "/apis/apiregistration.k8s.io/v1/apiservices", services: 1,
		body: `{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1.NAME.example.org"},"spec":{"group":"NAME.example.org",` +
			`"version":"v1","groupPriorityMinimum":1,"versionPriority":1,"service":{"namespace":"default","name":"nothing"}}}`,
	},
}

func TestARequestLeavesOneTrace(t *testing.T) {
	collected, address := newCollector(t) // for both, so that it is there until both have stopped
	both.RunFresh(t, func(t *testing.T, env *framework.Environment, tripod bool) {
		file := filepath.Join(env.Dir, "tracing.yaml")
		configuration := `{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "TracingConfiguration", "samplingRatePerMillion": 1000000, "endpoint": %q}`
		require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, configuration, address), 0o600))
		server, err := env.StartStock(t.Context(), framework.StockOptions{DropIn: tripod, Args: []string{"--tracing-config-file=" + file}})
		require.NoError(t, err)
		require.NoError(t, server.Create(t.Context(), manifests))
		jane, err := server.UserConfig("jane")
		require.NoError(t, err)
		for owner, request := range requests {
			services := 1
			if tripod {
				services = request.services
			}
			for user, config := range map[string]*rest.Config{"administrator": server.Admin(), "jane": jane} {
				t.Run(owner+"/"+user, func(t *testing.T) {
					t.Parallel()
					target := request.path + "?fieldManager=" + framework.UniqueName("test")
					body := strings.ReplaceAll(request.body, "NAME", framework.UniqueName("traced"))
					client := clientSpan{trace: randomHex(32), id: randomHex(16)}
					require.NoError(t, post(t.Context(), config, server.URL+target, body, client))
					framework.Eventually(t, "there is one trace of "+target, func(context.Context) error {
						return check(collected.traces(target), client, user == "administrator", services)
					})
				})
			}
		}
	})
}

// clientSpan is the span that the client sends with its request.
type clientSpan struct{ trace, id string }

func randomHex(length int) string {
	const digits = "123456789abcdef"
	made := make([]byte, length)
	for i := range made {
		made[i] = digits[rand.Intn(len(digits))]
	}
	return string(made)
}

func post(ctx context.Context, config *rest.Config, url, body string, from clientSpan) error {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Traceparent", "00-"+from.trace+"-"+from.id+"-01")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusCreated {
		err = fmt.Errorf("%s: %s", response.Status, answer)
	}
	return err
}

// check returns nil when there is one whole trace, which is the client's if that may decide, and is linked to it otherwise.
func check(traces map[string][]span, client clientSpan, decides bool, services int) error {
	if len(traces) != 1 {
		return fmt.Errorf("there are %d traces: %+v", len(traces), traces)
	}
	for id, spans := range traces {
		errs := []error{whole(spans, client, decides), fromRequestToEtcd(spans)}
		if decides != (id == client.trace) {
			errs = append(errs, fmt.Errorf("its ID is %s, that of the client %s", id, client.trace))
		}
		served := 0
		for _, s := range spans {
			if s.target != "" {
				served++
			}
		}
		if served != services {
			errs = append(errs, fmt.Errorf("the request is served %d times, want %d", served, services))
		}
		if err := errors.Join(errs...); err != nil {
			return fmt.Errorf("%w: %+v", err, spans)
		}
	}
	return nil
}

// whole returns nil when every span has its parent there, and the first one that of the client or a link to it.
func whole(spans []span, client clientSpan, decides bool) error {
	ids := sets.New[string]()
	for _, s := range spans {
		ids.Insert(s.id)
	}
	top := 0
	for _, s := range spans {
		switch {
		case s.parent == client.id && decides:
			top++
		case s.parent == "" && !decides && slices.Contains(s.linked, client.trace):
			top++
		case !ids.Has(s.parent):
			return fmt.Errorf("the parent of %s is missing", s.name)
		}
	}
	if top == 0 {
		return errors.New("nothing follows from the client's span")
	}
	return nil
}

// fromRequestToEtcd returns nil when a call of etcd follows from an HTTP request.
func fromRequestToEtcd(spans []span) error {
	byID := map[string]span{}
	for _, s := range spans {
		byID[s.id] = s
	}
	for _, s := range spans {
		if !strings.HasPrefix(s.name, "etcdserverpb.KV/") {
			continue
		}
		for up := s; up.id != ""; up = byID[up.parent] {
			if up.target != "" {
				return nil
			}
		}
	}
	return errors.New("no call of etcd follows from the request")
}
