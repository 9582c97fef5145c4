// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/tripod-k8s/tripod/e2e/environment"
	"github.com/tripod-k8s/tripod/e2e/progress"
	"github.com/tripod-k8s/tripod/e2e/release"
	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/traffic"
)

// replicas is how many of each service there are.
const replicas = 2

// tripod is the release that all tests use.
var tripod *release.Release

// customs are custom resources, so many that each replica of extensions is sure to serve some.
var customs = func() []traffic.Resource {
	var all []traffic.Resource
	for i := range 10 {
		all = append(all, traffic.Custom(fmt.Sprintf("Kind%02d", i)))
	}
	return all
}()

func TestMain(m *testing.M) {
	environment.Main(m, "-faults", install, func(e *environment.Environment) error { return e.Collect(tripod) })
}

func install(ctx context.Context, e *environment.Environment) error {
	tripod = e.Release("tripod", "tripod-system")
	values, err := e.Values(ctx, environment.NodePort)
	if err != nil {
		return err
	}
	etcd := values["etcd"].(release.Values)
	etcd["mode"] = "perService"
	for _, service := range release.Services {
		// A node of two processors has room for all of them, and for those that come while a Deployment rolls.
		values[service] = release.Values{"replicas": replicas, "resources": release.Values{"requests": release.Values{"cpu": "20m"}}}
	}
	err = errors.Join(e.Volume(ctx, "tripod-etcd"), e.Volume(ctx, "tripod-etcd-extensions"))
	if err == nil {
		err = progress.Step("helm installs the chart", func() error { return tripod.Install(ctx, values) })
	}
	if err == nil {
		_, err = tripod.Connect(ctx)
	}
	if err != nil {
		return err
	}
	return prepare(ctx)
}

// prepare returns when Tripod is reached from outside and has custom resources.
func prepare(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(tripod.Admin())
	if err != nil {
		return err
	}
	err = framework.Poll(ctx, "Tripod is reached at "+tripod.Admin().Host, func(context.Context) error {
		_, err := client.Discovery().ServerVersion()
		return err
	})
	if err != nil {
		return err
	}
	if _, err := tripod.Kubectl(ctx, traffic.Definitions(customs), "apply", "--server-side", "-f", "-"); err != nil {
		return err
	}
	return framework.Poll(ctx, "custom resources are served", func(ctx context.Context) error {
		for _, custom := range customs {
			if err := client.CoreV1().RESTClient().Get().AbsPath(custom.Collection("default")).Do(ctx).Error(); err != nil {
				return err
			}
		}
		return nil
	})
}

// load starts clients who use ConfigMaps and custom resources.
func load(t *testing.T) *traffic.Traffic {
	t.Helper()
	return traffic.Start(t, traffic.Options{Customs: customs, Rate: 60, Workers: 40, Watchers: 60}, tripod.Admin())
}

// settled returns when all services have all their replicas again, and serve.
func settled(t *testing.T) {
	t.Helper()
	for _, service := range release.Services {
		if err := tripod.Settled(t.Context(), service); err != nil {
			t.Fatal(err)
		}
	}
	awaitAnswer(t, "core serves", traffic.ConfigMaps.Collection("default"), http.StatusOK)
	for _, custom := range customs {
		awaitAnswer(t, "extensions serves "+custom.Plural, custom.Collection("default"), http.StatusOK)
	}
}

// awaitAnswer returns when a GET has such an answer.
func awaitAnswer(t *testing.T, what, path string, code int) traffic.Answer {
	t.Helper()
	return traffic.NewClient(t, tripod.Admin(), 1).Await(t, what, path, code)
}
