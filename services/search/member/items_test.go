// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

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

// TestAListThatStandsStillEnds has members that stop wherever a list allows it.
func TestAListThatStandsStillEnds(t *testing.T) {
	for name, text := range map[string]string{
		"before the list":          "",
		"in a name":                `{"ki`,
		"in a field":               `{"kind":"Li`,
		"after a field":            `{"kind":"List"`,
		"in a name after a field":  `{"kind":"List","met`,
		"after no items":           `{"items":null`,
		"in the items":             `{"items":[`,
		"after an item":            `{"items":[{}`,
		"after all items":          `{"items":[{}]`,
		"after the metadata":       `{"metadata":{}`,
		"after an item of a field": `{"items":[{}],"a":[1],"b":{}`,
	} {
		t.Run(name, func(t *testing.T) {
			m := hostile(t, nil, func(w http.ResponseWriter, req *http.Request) {
				io.WriteString(w, text) //nolint:errcheck // the client is gone
				stop(w, req)
			})
			m.door.Timeout = 20 * time.Millisecond
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, _, _, err := m.source().page(ctx, "", func(i item) error { i.done(); return nil })
			require.NoError(t, ctx.Err(), "the list has ended by itself")
			assert.True(t, isLimit(err), err)
		})
	}
}
