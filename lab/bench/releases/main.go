// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command releases installs many releases of the chart in one kind cluster, one after the other, and measures how long each takes to be
// ready, and the memory of its pods when all run. The last release shares the etcd of the one before: it has a prefix of its own, and a
// user that reaches no other keys.
//
//	go run ./lab/bench/releases                                   # 20 releases; about 30 minutes
//	go run ./lab/bench/releases -n 3                              # a look
//	go run ./lab/bench/releases -docs docs/benchmarks-releases.md # writes the page
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/e2e/environment"
	"github.com/tripod-k8s/tripod/e2e/progress"
	"github.com/tripod-k8s/tripod/e2e/release"
	"github.com/tripod-k8s/tripod/test/framework"
)

func main() { framework.RunCommand("releases", run) }

type options struct {
	count int
	// settle is how long all are idle before they are measured.
	settle  time.Duration
	docs    string
	note    string
	keep    bool
	command string
}

// maxPods is for 20 releases of five pods, and those of the cluster itself. The default is 110.
const maxPods = 250

func run(ctx context.Context, args []string) error {
	o := options{command: strings.Join(append([]string{"go run ./lab/bench/releases"}, args...), " ")}
	fs := flag.NewFlagSet("releases", flag.ContinueOnError)
	fs.IntVar(&o.count, "n", 20, "number of releases; two of them share an etcd")
	fs.DurationVar(&o.settle, "settle", time.Minute, "how long all releases are idle before they are measured")
	fs.StringVar(&o.docs, "docs", "", "write this Markdown file")
	fs.StringVar(&o.note, "note", "", "a sentence for that file, such as what else the machine did")
	fs.BoolVar(&o.keep, "keep", false, "leave the cluster")
	if err := framework.ParseFlags(fs, args); err != nil {
		return err
	}
	if o.count < 2 {
		return errors.New("-n must be 2 or more")
	}
	began := time.Now()
	if err := moreMaxPods(); err != nil {
		return err
	}
	env, err := environment.Up(ctx, "-releases")
	if err != nil {
		return err
	}
	r := &report{options: o, Began: began}
	err = r.measure(ctx, env)
	if !o.keep {
		err = errors.Join(err, env.Down())
	}
	if err != nil {
		return err
	}
	r.Took = time.Since(began)
	return r.write()
}

// moreMaxPods lets a node of the cluster run more pods, by a copy of the configuration of kind.
func moreMaxPods() error {
	config := map[string]any{"kind": "Cluster", "apiVersion": "kind.x-k8s.io/v1alpha4"}
	if file := os.Getenv("KIND_CONFIG"); file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("KIND_CONFIG: %w", err)
		}
		if err := yaml.Unmarshal(data, &config); err != nil {
			return fmt.Errorf("KIND_CONFIG: %w", err)
		}
	}
	patches, _ := config["kubeadmConfigPatches"].([]any) // there may be none
	config["kubeadmConfigPatches"] = append(patches,
		fmt.Sprintf("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: %d\n", maxPods))
	data, err := yaml.Marshal(config)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "tripod-releases-")
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "kind.yaml")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return err
	}
	return os.Setenv("KIND_CONFIG", file)
}

// controlPlane is a release that was measured.
type controlPlane struct {
	*release.Release
	// Etcd is the release whose etcd it uses.
	Etcd string
	// Ready is how long helm took until all pods were ready.
	Ready time.Duration
	// Memory is the memory of its pods, by component, in bytes.
	Memory map[string]uint64
}

// measure installs the releases, and measures them.
func (r *report) measure(ctx context.Context, env *environment.Environment) error {
	values, err := valuesOf(ctx, env)
	if err != nil {
		return err
	}
	for i := 1; i <= r.count; i++ {
		name := fmt.Sprintf("r%02d", i)
		c := &controlPlane{Release: env.Release(name, name), Etcd: name}
		these := values
		if i == r.count {
			owner := r.Releases[len(r.Releases)-1]
			c.Etcd = owner.Name
			if these, err = shareEtcd(ctx, owner.Release, c.Release, values); err != nil {
				return fmt.Errorf("share the etcd of %s: %w", owner.Name, err)
			}
		}
		began := time.Now()
		err := progress.Step("helm installs "+name, func() error { return c.Install(ctx, these, release.Values{"fullnameOverride": name}) })
		if err != nil {
			return err
		}
		c.Ready = time.Since(began)
		r.Releases = append(r.Releases, c)
	}
	if err := r.prove(ctx); err != nil {
		return err
	}
	select {
	case <-time.After(r.settle):
	case <-ctx.Done():
		return ctx.Err()
	}
	return r.weigh(ctx, env)
}

// prove expects that each release works, and shows nothing of the others.
func (r *report) prove(ctx context.Context) error {
	for _, c := range r.Releases {
		if err := works(ctx, c); err != nil {
			return fmt.Errorf("%s does not work: %w", c.Name, err)
		}
	}
	return apart(ctx, r.Releases)
}

// valuesOf returns the values of a release: the preset api, with data that goes with the pod, and requests with which 20 fit on two
// processors.
func valuesOf(ctx context.Context, env *environment.Environment) (release.Values, error) {
	values, err := env.Values(ctx, environment.NodePort)
	if err != nil {
		return nil, err
	}
	delete(values, "service")
	delete(values, "kubeconfig")
	little := release.Values{"requests": release.Values{"cpu": "1m", "memory": "32Mi"}}
	for _, service := range release.Services {
		values[service] = release.Values{"resources": little}
	}
	values["controllerManager"].(release.Values)["resources"] = little
	etcd := values["etcd"].(release.Values)
	etcd["resources"], etcd["persistence"] = little, release.Values{"enabled": false}
	return values, nil
}
