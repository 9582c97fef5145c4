// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapiserver

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var errDraining = errors.New("500 Internal Server Error")

// kubelet stands for the kubelet and the replicas. A replica goes on for a minute after its manifest has changed, and is ready again a minute after
// that.
type kubelet struct {
	t       *testing.T
	dir     string
	changed map[string]time.Time
	// away is the replica that is not ready.
	away string
}

func (k *kubelet) say(output string) {
	if file := filepath.Base(output); strings.HasSuffix(file, ".yaml") {
		k.changed[file] = time.Now()
	}
}

func (k *kubelet) ready(_ context.Context, url string) error {
	changed, ok := k.changed[url]
	require.True(k.t, ok, "nobody waits for a replica that does not change")
	switch since := time.Since(changed); {
	case since < 30*time.Second:
		return nil
	case since < time.Minute:
		return errDraining
	case since < 2*time.Minute:
		assert.Contains(k.t, []string{"", url}, k.away, "two replicas are away")
		k.away = url
		return syscall.ECONNREFUSED
	default:
		k.away = ""
		return nil
	}
}

func versions(version string) []Manifest {
	return []Manifest{
		{File: "tripod-core.yaml", Content: []byte(version), Ready: "tripod-core.yaml"},
		{File: "tripod-core-2.yaml", Content: []byte(version), Ready: "tripod-core-2.yaml"},
		{File: "kube-apiserver.yaml", Content: []byte(version)},
	}
}

func TestReplicasChangeOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kubelet{t: t, dir: t.TempDir(), changed: map[string]time.Time{}}
		surplus := filepath.Join(k.dir, "tripod-core-3.yaml")
		require.NoError(t, os.WriteFile(surplus, nil, 0o600))
		for _, step := range []struct {
			version string
			takes   time.Duration
		}{
			{"v1", 0},               // new replicas need not wait for each other
			{"v2", 4 * time.Minute}, // two replicas, one after the other
			{"v2", 0},               // nothing changes
		} {
			began := time.Now()
			require.NoError(t, rollout{k.dir, k.say, k.ready}.write(t.Context(), versions(step.version)))
			assert.Equal(t, step.takes, time.Since(began).Truncate(time.Minute), step.version)
			for _, m := range versions(step.version) {
				content, err := os.ReadFile(filepath.Join(k.dir, m.File))
				require.NoError(t, err)
				assert.Equal(t, step.version, string(content), m.File)
			}
			assert.NoFileExists(t, surplus, "the third replica is no longer wanted")
		}
	})
}

func TestARolloutEndsAtAReplicaThatIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		for want, answer := range map[string]error{
			"the replica did not become ready within 5m0s":     syscall.ECONNREFUSED,
			"the kubelet did not stop the replica within 5m0s": errDraining,
		} {
			for _, m := range versions("v1") {
				require.NoError(t, os.WriteFile(filepath.Join(dir, m.File), m.Content, 0o600))
			}
			r := rollout{dir, func(string) {}, func(context.Context, string) error { return answer }}
			err := r.write(t.Context(), versions("v2"))
			require.ErrorContains(t, err, want)
			require.ErrorIs(t, err, answer)
			content, err := os.ReadFile(filepath.Join(dir, "tripod-core-2.yaml"))
			require.NoError(t, err)
			assert.Equal(t, "v1", string(content), "the other replica goes on")
		}
	})
}

func TestReadinessOfAReplica(t *testing.T) {
	var code atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(code.Load())) }))
	code.Store(http.StatusOK)
	require.NoError(t, ready(t.Context(), server.URL))
	code.Store(http.StatusInternalServerError)
	require.ErrorContains(t, ready(t.Context(), server.URL), "500")
	server.Close()
	require.ErrorIs(t, ready(t.Context(), server.URL), syscall.ECONNREFUSED)
}
