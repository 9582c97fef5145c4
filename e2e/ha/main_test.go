// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package ha

import (
	"context"
	"fmt"
	"testing"

	"github.com/tripod-k8s/tripod/e2e/environment"
	"github.com/tripod-k8s/tripod/e2e/release"
)

// members is the number of members of etcd.
const members = 3

// tripod is the release.
var tripod *release.Release

// customs has enough kinds that each replica of extensions serves some.
var customs = release.Customs(10)

func TestMain(m *testing.M) {
	environment.Main(m, "-ha", install, func(e *environment.Environment) error { return e.Collect(tripod) })
}

func install(ctx context.Context, e *environment.Environment) error {
	tripod = e.Release("tripod", "tripod-system")
	values, err := valuesOf(ctx, e)
	if err != nil {
		return err
	}
	for i := range members {
		if err := e.Volume(ctx, fmt.Sprintf("tripod-etcd-%d", i)); err != nil {
			return err
		}
	}
	if err := e.Volume(ctx, "tripod-snapshots"); err != nil {
		return err
	}
	if err := tripod.Up(ctx, values); err != nil {
		return err
	}
	return tripod.Define(ctx, customs)
}

// valuesOf returns the values that the preset needs, images that need no registry, and requests with which all pods fit on two processors.
func valuesOf(ctx context.Context, e *environment.Environment) (release.Values, error) {
	values, err := e.Values(ctx, environment.NodePort)
	if err != nil {
		return nil, err
	}
	images := map[string]release.Values{}
	for _, program := range []string{"kube-scheduler", "proxy-server", "proxy-agent"} {
		if images[program], err = e.Program(e.Cluster, program); err != nil {
			return nil, err
		}
	}
	little := release.Values{"requests": release.Values{"cpu": "10m"}}
	values["preset"] = "ha"
	// No node joins, so the add-ons have nowhere to run, and these addresses lead nowhere.
	values["join"] = release.Values{
		"endpoint": "192.0.2.1:443", "coreDNS": release.Values{"enabled": false}, "kubeProxy": release.Values{"enabled": false},
	}
	values["konnectivity"] = release.Values{
		"endpoint": "192.0.2.1:8132", "server": release.Values{"image": images["proxy-server"], "resources": little},
		"agent": release.Values{"image": images["proxy-agent"]},
	}
	values["scheduler"] = release.Values{"image": images["kube-scheduler"], "resources": little}
	values["controllerManager"].(release.Values)["resources"] = little
	for _, service := range release.Services {
		values[service] = release.Values{"resources": little}
	}
	etcd := values["etcd"].(release.Values)
	etcd["resources"] = little
	etcd["snapshots"] = release.Values{"storageClassName": environment.VolumeClass, "size": "1Gi"}
	return values, nil
}
