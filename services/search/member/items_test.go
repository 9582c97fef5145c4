// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNothingHasToFollowAnEvent holds that a watch may be quiet after the line break with which API servers end an event, whether that comes with the event
// or later. A part of the next event has to end in time, and so have many blanks.
func TestNothingHasToFollowAnEvent(t *testing.T) {
	for name, test := range map[string]struct {
		text  string
		timed bool
	}{
		"nothing":      {"{}", false},
		"a line break": {"{}\n", false},
		"several":      {"{}\r\n\r\n \t", false},
		"an event":     {"{}\n{", true},
		"many blanks":  {"{}" + strings.Repeat(" ", 8*maxBlanks), true},
	} {
		for how, reader := range map[string]func(io.Reader) io.Reader{"at once": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader} {
			t.Run(name+" "+how, func(t *testing.T) {
				i := newItems(t.Context(), newDoor(t, nil).entrance(), reader(strings.NewReader(test.text)), nil)
				i.quiet = true
				require.NoError(t, i.next(func(item) error { return nil }))
				require.Error(t, i.next(func(item) error { return nil }), "that is all")
				assert.Equal(t, test.timed, i.slow.Stop(), "whether a timer runs")
			})
		}
	}
}
