// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package streaming

import (
	"bufio"
	"testing"

	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"

	"github.com/tripod-k8s/tripod/test/framework"
)

func TestLogsAreFollowedLineByLine(t *testing.T) {
	onEach(t, func(t *testing.T, cluster *framework.Cluster) {
		for _, protocol := range []string{"h2", "http/1.1"} {
			t.Run(protocol, func(t *testing.T) {
				p := newPod(t, cluster, way{})
				config := cluster.Admin()
				config.NextProtos = []string{protocol}
				stream, err := kubeClient(t, config).CoreV1().Pods(p.namespace).GetLogs(p.name, &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
				require.NoError(t, err)
				defer stream.Close()
				lines := bufio.NewScanner(stream)
				for _, want := range []string{"one", "two", "three"} {
					// A line is sent only when the one before has arrived.
					p.kubelet.LogLines <- want
					if !lines.Scan() || lines.Text() != want {
						t.Fatalf("got %q (%v), want %q", lines.Text(), lines.Err(), want)
					}
				}
				close(p.kubelet.LogLines)
				if lines.Scan() {
					t.Errorf("after the end: %q", lines.Text())
				}
			})
		}
	})
}
