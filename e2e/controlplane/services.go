// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"context"
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/e2e/kindcluster"
)

// rollAnnotation changes to make the kubelet restart a static pod.
const rollAnnotation = "e2e.tripod/roll"

// Services configures how to run the services of Tripod as static pods.
type Services struct {
	// Binary is the program tripod. Repository and Tag make the names of the images.
	Binary, Repository, Tag string
	// Aggregator, Core and Extensions are the numbers of replicas.
	Aggregator, Core, Extensions int
}

// Replicas returns the names of the static pods of each service.
func (s Services) Replicas() map[string][]string {
	named := func(first, prefix string, count int) []string {
		names := []string{first}
		for number := 2; number <= count; number++ {
			names = append(names, fmt.Sprintf("%s-%d", prefix, number))
		}
		return names
	}
	return map[string][]string{
		"aggregator": named(APIServer, "tripod-aggregator", s.Aggregator),
		"core":       named("tripod-core", "tripod-core", s.Core),
		"extensions": named("tripod-extensions", "tripod-extensions", s.Extensions),
	}
}

// Use makes the services the API server, as docs/migrate.md says, and returns when all replicas are ready. manifest is that of
// kube-apiserver.
func (s Services) Use(ctx context.Context, cluster *kindcluster.Cluster, manifest []byte) error {
	program, err := os.Open(s.Binary)
	if err != nil {
		return fmt.Errorf("cannot copy tripod to the node: %w", err)
	}
	defer program.Close() //nolint:errcheck // only read
	if _, err := cluster.Exec(ctx, program, "install", "-m", "755", "/dev/stdin", "/usr/local/bin/tripod"); err != nil {
		return err
	}
	if _, err := cluster.Exec(ctx, bytes.NewReader(manifest), "cp", "/dev/stdin", stockPath); err != nil {
		return err
	}
	if s.Aggregator > 1 {
		if _, err := cluster.Exec(ctx, nil, "sysctl", "-w", "net.ipv4.tcp_migrate_req=1"); err != nil {
			return err
		}
	}
	if _, err := cluster.Exec(ctx, nil, "tripod", "static-pods", "--manifest", stockPath, "--output", ManifestDir,
		"--image-repository", s.Repository, "--image-tag", s.Tag,
		"--replicas", fmt.Sprintf("aggregator=%d,core=%d,extensions=%d", s.Aggregator, s.Core, s.Extensions)); err != nil {
		return err
	}
	for service, replicas := range s.Replicas() {
		for _, component := range replicas {
			if err := WaitForImage(ctx, cluster, component, s.Repository+"/tripod-"+service+":"+s.Tag); err != nil {
				return err
			}
		}
	}
	return nil
}

// Roll restarts a static pod as a change of its manifest does, and returns when it is ready again. roll distinguishes it from other rolls
// of the pod.
func Roll(ctx context.Context, cluster *kindcluster.Cluster, component, roll string) error {
	manifest, err := Read(ctx, cluster, component)
	if err != nil {
		return err
	}
	pod, err := parse(manifest)
	if err != nil {
		return err
	}
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, rollAnnotation, roll)
	if manifest, err = yaml.Marshal(pod); err != nil {
		return err
	}
	if err := Put(ctx, cluster, component, manifest); err != nil {
		return err
	}
	return Eventually(ctx, ExchangeTimeout, component+" is ready again", func(ctx context.Context) error {
		pod, err := cluster.Client.CoreV1().Pods(metav1.NamespaceSystem).Get(ctx, component+"-"+cluster.NodeName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		if pod.Annotations[rollAnnotation] != roll {
			return fmt.Errorf("the mirror pod is still that of before")
		}
		return PodReady(pod)
	})
}
