// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/tripod-k8s/tripod/e2e/progress"
)

// measureStarts starts and stops an API server and its etcd on both sides in turns, as each package of tests does, and keeps the medians.
func measureStarts(ctx context.Context, times int, sides [2]*side, both [2]*kept) error {
	log.SetLogger(logr.Discard()) // envtest complains if it has none
	var starts, stops [2][]time.Duration
	for range times {
		for i, s := range sides {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			start, stop, err := s.startAndStop()
			if err != nil {
				return fmt.Errorf("start the API server of %s under envtest: %w", s.name, err)
			}
			starts[i], stops[i] = append(starts[i], start), append(stops[i], stop)
		}
	}
	for i, k := range both {
		k.Start, k.Stop = median(starts[i]), median(stops[i])
		progress.Printf("envtest on %s: starts in %s, stops in %s", sides[i].name, k.Start.Round(time.Millisecond), k.Stop.Round(time.Millisecond))
		if err := k.save(); err != nil {
			return err
		}
	}
	return nil
}

func (s *side) startAndStop() (start, stop time.Duration, err error) {
	environment := &envtest.Environment{BinaryAssetsDirectory: s.assets}
	environment.ControlPlane.GetAPIServer().Path = filepath.Join(s.assets, "kube-apiserver")
	environment.ControlPlane.Etcd = &envtest.Etcd{Path: filepath.Join(s.assets, "etcd")}
	began := time.Now()
	if _, err := environment.Start(); err != nil {
		return 0, 0, err
	}
	start = time.Since(began)
	began = time.Now()
	err = environment.Stop()
	return start, time.Since(began), err
}

func median(durations []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(durations))[len(durations)/2]
}
