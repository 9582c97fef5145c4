// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"bytes"
	"log"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/compatibility"
	"k8s.io/component-base/logs"
)

// TestLibrariesWriteFewLines has a library write lines as fast as it can, and then now and then.
func TestLibrariesWriteFewLines(t *testing.T) {
	var written bytes.Buffer
	now := time.Now()
	l := newLibraryLog(&written, func() time.Time { return now })
	logger := log.New(l, "", 0)
	for range 100_000 {
		logger.Print("unhandled response frame type")
	}
	assert.Equal(t, libraryLinesAtOnce, bytes.Count(written.Bytes(), []byte("\n")))
	assert.EqualValues(t, 100_000-libraryLinesAtOnce, l.others.Load())
	written.Reset()
	for range 10 {
		now = now.Add(time.Second)
		logger.Print("now and then")
	}
	assert.Equal(t, 10, bytes.Count(written.Bytes(), []byte("\n")))
	assert.Zero(t, l.others.Load())
}

// TestAServiceBoundsLinesOfLibraries holds that the command of a service sets the bound, after Kubernetes has set where lines go.
func TestAServiceBoundsLinesOfLibraries(t *testing.T) {
	before := log.Writer()
	defer log.SetOutput(before)
	cmd := NewCommand(Command{Name: "x", Flags: &cliflag.NamedFlagSets{}, Logs: logs.NewOptions(), Components: compatibility.NewComponentGlobalsRegistry()})
	cmd.RunE = func(*cobra.Command, []string) error { return nil }
	cmd.SetArgs(nil)
	require.Zero(t, Execute(t.Context(), cmd, t.Output()))
	require.IsType(t, &libraryLog{}, log.Writer())
	limitLibraryLog()
	assert.IsType(t, logs.KlogWriter{}, log.Writer().(*libraryLog).to)
}
