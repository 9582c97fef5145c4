// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/tripod-k8s/tripod/e2e/environment"
	"github.com/tripod-k8s/tripod/e2e/progress"
	"github.com/tripod-k8s/tripod/e2e/release"
	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/traffic"
)

// env is the cluster that tests share.
var env *environment.Environment

// main is the release that tests share, in the namespace that its services are said to be in.
var mainRelease struct {
	sync.Once
	*release.Release
	err error
}

// failed are releases of tests that failed. They stay, to be looked at.
var failed []*release.Release

func TestMain(m *testing.M) {
	environment.Main(m, "", func(_ context.Context, e *environment.Environment) error {
		env = e
		return nil
	}, func(e *environment.Environment) error {
		releases := failed
		if mainRelease.Release != nil {
			releases = append(releases, mainRelease.Release)
		}
		return e.Collect(releases...)
	})
}

// shared returns the release that tests share. The first that needs it installs it.
func shared(t testing.TB) *release.Release {
	t.Helper()
	mainRelease.Do(func() {
		r := env.Release("tripod", "tripod-system")
		mainRelease.Release = r
		values, err := env.Values(t.Context(), environment.NodePort)
		if err == nil {
			err = env.Volume(t.Context(), "tripod")
		}
		if err == nil {
			err = progress.Step("helm installs the chart", func() error { return install(t.Context(), r, values) })
		}
		mainRelease.err = err
	})
	if mainRelease.err != nil {
		t.Fatal(mainRelease.err)
	}
	return mainRelease.Release
}

// install installs the chart, and returns when the release is reached from outside.
func install(ctx context.Context, r *release.Release, values ...release.Values) error {
	if err := r.Install(ctx, values...); err != nil {
		return err
	}
	if _, err := r.Connect(ctx); err != nil {
		return err
	}
	return awaitPort(ctx, r)
}

// awaitPort returns when Tripod is reached from outside: kube-proxy may need a second for a new Service.
func awaitPort(ctx context.Context, r *release.Release) error {
	client, err := kubernetes.NewForConfig(r.Admin())
	if err != nil {
		return err
	}
	return framework.Poll(ctx, "Tripod is reached at "+r.Admin().Host, func(ctx context.Context) error {
		_, err := client.Discovery().ServerVersion()
		return err
	})
}

// must fails the test where a step does.
func must(t testing.TB, what string, do func() error) {
	t.Helper()
	if err := progress.Step(what, do); err != nil {
		t.Fatal(err)
	}
}

// customs are custom resources, so many that each of three replicas of extensions is sure to serve some.
var customs = func() []traffic.Resource {
	var all []traffic.Resource
	for i := range 30 {
		all = append(all, traffic.Custom(fmt.Sprintf("Kind%02d", i)))
	}
	return all
}()

// load starts clients of the release, who use ConfigMaps and custom resources.
func load(t testing.TB, r *release.Release) *traffic.Traffic {
	t.Helper()
	_, err := r.Kubectl(t.Context(), traffic.Definitions(customs), "apply", "--server-side", "-f", "-")
	if err != nil {
		t.Fatal(err)
	}
	client := traffic.NewClient(t, r.Admin(), 1)
	framework.Eventually(t, "custom resources are served", func(ctx context.Context) error {
		for _, custom := range customs {
			a, err := client.Send(ctx, http.MethodGet, custom.Collection("default"), nil)
			if err == nil {
				err = a.Expect(http.StatusOK)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return traffic.Start(t, traffic.Options{Customs: customs, Rate: 100, Workers: 60, Watchers: 120}, r.Admin())
}

// unharmed stops clients, none of whom should have noticed anything.
func unharmed(t testing.TB, load *traffic.Traffic) {
	t.Helper()
	load.Finish(t)
	load.FailsNever(t)
	load.WatchesAreWell(t, false)
	load.SawAll(t)
}
