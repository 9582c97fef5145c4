// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/traffic"
)

func TestUpRunsServices(t *testing.T) {
	env := framework.ForTest(t)
	broken := filepath.Join(t.TempDir(), "broken")
	require.NoError(t, os.WriteFile(broken, []byte("#!/bin/sh\necho it is broken\nexit 1\n"), 0o700))
	silent := filepath.Join(t.TempDir(), "silent")
	require.NoError(t, os.WriteFile(silent, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o700))
	other := filepath.Join(t.TempDir(), "other")
	require.NoError(t, os.WriteFile(other, []byte("#!/bin/sh\necho \"unknown flag: $1\" >&2\nexit 2\n"), 0o700))
	buildUnstored(t)
	tripod, err := env.StartTripod(t.Context(), framework.TripodOptions{Args: []string{
		"--service=wardle=" + env.Binary("wardle"),
		"--service=broken=" + broken,
		"--service=silent=" + silent, "--service=other=" + other, // no API services
		"--service=unstored=" + unstored, "--service-arg=unstored=--file=" + broken,
	}})
	require.NoError(t, err)
	ready := func(replica string) {
		t.Helper()
		framework.Eventually(t, replica+" is ready", func(ctx context.Context) error {
			status, err := tripod.Component(ctx, replica)
			if err == nil && !status.Ready {
				err = fmt.Errorf("it is not: %s", status.Message)
			}
			return err
		})
	}
	ready("wardle-0")
	client := traffic.NewClient(t, tripod.Admin(), 1)
	client.Await(t, "the aggregator knows that wardle is ready", "/readyz/wardle-available", http.StatusOK)
	client.Await(t, "the aggregator knows that broken is not", "/readyz/broken-available", http.StatusInternalServerError)
	client.Await(t, "wardle answers", "/metrics?service=wardle", http.StatusOK)
	framework.Eventually(t, "the log says that broken is not ready", func(context.Context) error {
		log, err := os.ReadFile(tripod.Process.Log)
		if err == nil {
			for _, want := range []string{"broken-0      not ready", "it is broken"} {
				if !strings.Contains(string(log), want) {
					return fmt.Errorf("no %q", want)
				}
			}
		}
		return err
	})
	for replica, want := range map[string]string{"broken-0": "it is broken", "silent-0": "does not listen yet at --probe-bind-address", "other-0": "unknown flag: --"} {
		framework.Eventually(t, "the status says why "+replica+" is not ready", func(ctx context.Context) error {
			status, err := tripod.Component(ctx, replica)
			if err == nil && (status.Ready || !strings.Contains(status.Message, want)) {
				err = fmt.Errorf("ready: %t, %q", status.Ready, status.Message)
			}
			return err
		})
	}
	ready("unstored-0")
	client.Await(t, "a service without etcd is part of the API", "/apis/unstored.example.com/v1/flunders", http.StatusOK)

	require.NoError(t, tripod.Scale(t.Context(), "wardle", 2))
	ready("wardle-1")
	require.NoError(t, tripod.Kill(t.Context(), "wardle-0"))
	client.Await(t, "the other replica answers", "/readyz?service=wardle", http.StatusOK)
	ready("wardle-0")
	require.NoError(t, tripod.Scale(t.Context(), "wardle", 1))
	require.NoError(t, tripod.Stop())
}
