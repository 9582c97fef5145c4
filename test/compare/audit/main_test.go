// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/both"
)

// sides are stock and what is compared with it.
var sides [2]*side

// kubelet is that of the node of both clusters.
var kubelet *framework.Kubelet

func TestMain(m *testing.M) {
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	framework.Main(m, func(ctx context.Context, env *framework.Environment) error {
		kubelet = framework.NewKubelet(func(err error) { fmt.Fprintln(os.Stderr, "kubelet:", err) })
		close(kubelet.LogLines)
		policy := filepath.Join(env.Dir, "audit-policy.yaml")
		if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
			return err
		}
		var err error
		sides, err = both.Start(ctx, func(ctx context.Context, tripod bool) (*side, error) {
			start := startStock
			if tripod {
				start = startTripod
			}
			s, err := start(ctx, env, policy)
			if err != nil {
				return nil, err
			}
			return s, s.prepare(ctx)
		})
		return err
	})
}

// flags has requests audited in a file, which the caller reads when the process has stopped.
func flags(policy, log string) []string {
	return []string{"--audit-policy-file=" + policy, "--audit-log-path=" + log}
}

func startStock(ctx context.Context, env *framework.Environment, policy string) (*side, error) {
	log := filepath.Join(env.Dir, framework.UniqueName("audit")+".log")
	cluster, err := env.StartStock(ctx, framework.StockOptions{Args: flags(policy, log)})
	if err != nil {
		return nil, err
	}
	return newSide(cluster.Cluster, map[string]string{"kube-apiserver": log}, cluster.Process.Stop), nil
}

// startTripod has each service write a file of its own.
func startTripod(ctx context.Context, env *framework.Environment, policy string) (*side, error) {
	logs := map[string]string{}
	args := []string{"--apiservice-form=local"}
	for _, service := range []string{"aggregator", "core", "extensions"} {
		logs[service] = filepath.Join(env.Dir, "audit-"+service+".log")
		for _, flag := range flags(policy, logs[service]) {
			args = append(args, "--"+service+"-arg="+flag)
		}
	}
	tripod, err := env.StartTripod(ctx, framework.TripodOptions{Args: args})
	if err != nil {
		return nil, err
	}
	return newSide(tripod.Cluster, logs, tripod.Stop), nil
}
