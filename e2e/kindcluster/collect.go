// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kindcluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Collect writes the logs that kind exports, including those of all containers, to dir. With kubectl it adds all objects and events except
// Secrets.
func (c *Cluster) Collect(dir string, kubectl ...string) error {
	err := c.provider.CollectLogs(c.Name, filepath.Join(dir, "kind"))
	for file, args := range map[string][]string{
		"objects.yaml": {"get", "-A", "-o", "yaml", "nodes,pods,services,endpointslices,configmaps,deployments,replicasets,statefulsets,jobs,cronjobs," +
			"networkpolicies,poddisruptionbudgets,horizontalpodautoscalers,serviceaccounts,roles,rolebindings,persistentvolumeclaims"},
		"objects.txt":  {"get", "-A", "-o", "wide", "nodes,pods,services,endpointslices,deployments,statefulsets,jobs"},
		"events.txt":   {"get", "-A", "events", "--sort-by=.lastTimestamp"},
		"describe.txt": {"describe", "-A", "pods"},
	} {
		err = errors.Join(err, Write(filepath.Join(dir, file), append(append(kubectl, "--kubeconfig", c.Kubeconfig), args...)))
	}
	return err
}

// Write writes the output of a command to a file.
func Write(path string, command []string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("cannot collect: %w", err)
	}
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("cannot collect: %w", err)
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = file, file
	return errors.Join(cmd.Run(), file.Close())
}
