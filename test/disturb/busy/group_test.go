// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package busy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework"
)

const groupRoot = "/sys/fs/cgroup"

// group is a cgroup that limits processor time.
type group struct{ dir string }

// period is the time in which the kernel gives a group its part, in microseconds. It is that of Kubernetes.
const period = 100_000

// newGroup makes a cgroup for this many processors. All processes in it share them.
func newGroup(t *testing.T, processors float64) *group {
	t.Helper()
	quota, name := strconv.Itoa(int(processors*period)), framework.UniqueName("tripod-busy")
	dir, files := filepath.Join(groupRoot, "cpu", name), map[string]string{"cpu.cfs_period_us": strconv.Itoa(period), "cpu.cfs_quota_us": quota}
	if _, err := os.Stat(filepath.Join(groupRoot, "cgroup.controllers")); err == nil { // version 2 of cgroups
		require.NoError(t, os.WriteFile(filepath.Join(groupRoot, "cgroup.subtree_control"), []byte("+cpu"), 0o600))
		dir, files = filepath.Join(groupRoot, name), map[string]string{"cpu.max": fmt.Sprintf("%s %d", quota, period)}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		if errors.Is(err, os.ErrPermission) || errors.Is(err, os.ErrNotExist) {
			t.Skipf("no cgroup: %v", err)
		}
		require.NoError(t, err)
	}
	t.Cleanup(func() { assert.NoError(t, os.Remove(dir)) })
	for file, value := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(value), 0o600))
	}
	return &group{dir: dir}
}

// add moves a process and all of its threads into the group.
func (g *group) add(t *testing.T, process *framework.Process) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(g.dir, "cgroup.procs"), []byte(strconv.Itoa(process.PID())), 0o600))
}
