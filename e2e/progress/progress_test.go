// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestStepsThatTakeLongAreAnnounced(t *testing.T) {
	var printed bytes.Buffer
	defer func(before io.Writer) { out = before }(out)
	out = &printed
	synctest.Test(t, func(t *testing.T) {
		require.NoError(t, Step("short", func() error { return nil }))
		require.Error(t, Step("long", func() error {
			time.Sleep(announceAfter + time.Second)
			return errors.New("reason")
		}))
	})
	text := regexp.MustCompile(`(?m)^\S+  `).ReplaceAllString(printed.String(), "")
	assert.Equal(t, []string{"short: 0s", "long ...", "long failed after 3s"}, strings.Split(strings.TrimSpace(text), "\n"))
}
