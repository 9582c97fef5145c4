// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"errors"
	"path/filepath"

	"github.com/tripod-k8s/tripod/e2e/kindcluster"
)

// Collect writes the manifests that helm installed, and the health and metrics of Tripod, to dir. The logs of the node include those of
// pods.
func (r *Release) Collect(dir string) error {
	helm := []string{r.tools.Helm, "--kubeconfig", r.Host.Kubeconfig, "--namespace", r.Namespace}
	tripod := []string{r.tools.Tripod, "kubectl", "--kubeconfig", r.Kubeconfig, "--request-timeout=10s"}
	var all error
	for file, command := range map[string][]string{
		"manifest.yaml":   append(helm, "get", "manifest", r.Name),
		"values.yaml":     append(helm, "get", "values", "--all", r.Name),
		"history.txt":     append(helm, "history", r.Name),
		"readyz.txt":      append(tripod, "get", "--raw", "/readyz?verbose"),
		"apiservices.txt": append(tripod, "get", "apiservices", "-o", "yaml"),
		"metrics.txt":     append(tripod, "get", "--raw", "/metrics"),
	} {
		all = errors.Join(all, kindcluster.Write(filepath.Join(dir, r.Name, file), command))
	}
	return all
}
