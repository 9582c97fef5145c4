// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package moves

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	notesv1 "github.com/tripod-k8s/tripod/examples/storages/v1"
	"github.com/tripod-k8s/tripod/test/framework"
)

// note is what the services of examples/storages serve.
var note = custom{notesv1.GroupVersion.WithResource("notes"), "Note", map[string]any{"text": "Buy milk."}, "text"}

// Services that keep objects elsewhere than in etcd count resourceVersions in their own way.
func TestAGroupMovesToOtherStoragesAndBack(t *testing.T) {
	env, database, directory := framework.ForTest(t), filepath.Join(t.TempDir(), "url"), t.TempDir()
	require.NoError(t, os.WriteFile(database, []byte("sqlite:"+filepath.Join(t.TempDir(), "notes.db")), 0o600))
	i := startServices(t, env, note, func(*framework.Cluster) {},
		"--service=sql="+env.Binary("notes-sql"), "--service-arg=sql=--database-file="+database,
		"--service=files="+env.Binary("notes-files"), "--service-arg=files=--directory="+directory,
		"--service=memory="+env.Binary("notes-memory"))
	require.NoError(t, i.Scale(t.Context(), "sql", 2))
	before, load := i.fixed(t), startLoad(t, i.Admin(), note)
	for n, service := range []string{"sql", "files", "memory"} {
		load.goOn(t)
		for back, way := range []struct{ to, arg string }{{service, "--to=" + service}, {"extensions", "--back"}} {
			report := i.move(t, way.arg)
			assert.True(t, report.Moved)
			t.Logf("to %s: %.1f s, paused %.1f s", way.to, report.Seconds, report.PausedSeconds)
			load.goOn(t)
			i.requireOwner(t, way.to)
			i.requireSame(t, before)
			load.requireExpired(t, int64(2*n+back+1))
		}
	}
	load.finish(t)
	i.requireSame(t, before)
}
