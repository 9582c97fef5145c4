// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	"github.com/tripod-k8s/tripod/test/framework"
)

// kubectl is a user of the command line.
type kubectl struct {
	program, kubeconfig, cache string
}

func newKubectl(env *framework.Environment, cluster *framework.Cluster) kubectl {
	return kubectl{program: env.Binary("tripod"), kubeconfig: cluster.Kubeconfig, cache: env.Dir}
}

// run runs a command, whose answer must have some words.
func (k kubectl) run(ctx context.Context, input string, words []string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, giveUp)
	defer cancel()
	cmd := exec.CommandContext(ctx, k.program, append([]string{"kubectl", "--kubeconfig", k.kubeconfig, "--cache-dir", k.cache}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	output, err := cmd.CombinedOutput()
	for _, word := range words {
		if err == nil && !strings.Contains(string(output), word) {
			err = fmt.Errorf("there is nothing of %q", word)
		}
	}
	if err != nil {
		return fmt.Errorf("%w:\n%s", err, output)
	}
	return nil
}
