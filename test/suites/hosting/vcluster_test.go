// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package hosting

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework"
)

const (
	vclusterPKI   = "/data/pki"
	vclusterAdmin = vclusterPKI + "/admin.conf"
)

// copied fills /binaries as the init container does that docs/vcluster.md adds, and returns the kube-apiserver there.
func (h *host) copied() string {
	h.t.Helper()
	out, err := exec.CommandContext(h.t.Context(), h.env.Binary("tripod"), "copy-kube-apiserver", h.path("/binaries")).CombinedOutput()
	require.NoError(h.t, err, "%s", out)
	return h.path("/binaries/kube-apiserver")
}

// isManaged expects what vcluster looks at before it stops a kube-apiserver that an earlier syncer has left: the first argument and the
// environment.
func isManaged(t *testing.T, process *framework.Process, path string) {
	t.Helper()
	arguments, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", process.PID()))
	require.NoError(t, err)
	first, _, _ := strings.Cut(string(arguments), "\x00")
	assert.Equal(t, path, first)
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", process.PID()))
	require.NoError(t, err)
	assert.Contains(t, strings.Split(string(environment), "\x00"), "_VCLUSTER_MANAGED=yes")
}

// TestVclusterWithKine is the default of vcluster.
func TestVclusterWithKine(t *testing.T) {
	h := newHost(t, "vcluster-kine.yaml")
	h.pki(vclusterPKI, h.endpoint())
	h.splitCA(vclusterPKI)
	h.kine(map[string]string{"metrics-bind-address": "0"})
	h.runsInVcluster(nil)
}

// TestVclusterWithEtcd has an embedded etcd and private nodes.
func TestVclusterWithEtcd(t *testing.T) {
	h := newHost(t, "vcluster-etcd.yaml")
	h.pki(vclusterPKI, h.endpoint())
	h.splitCA(vclusterPKI)
	url, _ := h.etcd(vclusterPKI + "/etcd")
	h.runsInVcluster(map[string]string{"etcd-servers": url})
}

// runsInVcluster starts, uses and stops kube-apiserver.
func (h *host) runsInVcluster(instead map[string]string) {
	h.t.Helper()
	program := h.copied()
	apiserver := h.start("kube-apiserver", program, instead)
	h.serves("kube-apiserver", apiserver)
	isManaged(h.t, apiserver, program)
	h.works(vclusterAdmin)
	assert.Equal(h.t, "ok", h.kubectl(vclusterAdmin, "get", "--raw=/readyz"), "what the syncer asks for")
	endpoints := h.kubectl(vclusterAdmin, "get", "endpoints", "kubernetes", "--ignore-not-found", "-o=name")
	assert.Empty(h.t, endpoints, "the syncer writes the endpoints of the Service kubernetes")
	stops(h.t, apiserver, syscall.SIGINT)
}
