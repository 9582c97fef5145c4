// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestWatchesEndBetweenEvents(t *testing.T) {
	for name, test := range map[string]struct {
		media         string
		before, after []string
		want          string
		late          bool
	}{
		"between events":                 {media: "application/json", before: []string{"{1}\n"}, after: []string{"{2}\n"}, want: "{1}\n"},
		"before the first":               {media: "application/json", after: []string{"{1}\n"}, want: ""},
		"with the rest of one":           {media: "application/json", before: []string{"{1}\n{", "2"}, after: []string{"}", "\n", "{3}\n"}, want: "{1}\n{2}\n"},
		"when the rest does not come":    {media: "application/json", before: []string{"{1"}, want: "{1", late: true},
		"with the rest of a frame":       {media: "application/vnd.kubernetes.protobuf;stream=watch", before: []string{"\x00\x00\x00\x03a\n"}, after: []string{"c", "\x00\x00\x00\x01d"}, want: "\x00\x00\x00\x03a\nc"},
		"with the rest of a length":      {media: "application/vnd.kubernetes.protobuf;stream=watch", before: []string{"\x00\x00\x00\x01a\x00"}, after: []string{"\x00\x00\x01", "b", "\x00"}, want: "\x00\x00\x00\x01a\x00\x00\x00\x01b"},
		"between frames, without a line": {media: "application/vnd.kubernetes.protobuf;stream=watch", before: []string{"\x00\x00\x00\x01a"}, after: []string{"\x00"}, want: "\x00\x00\x00\x01a"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				recorder, ends := httptest.NewRecorder(), 0
				w := &wholeEvents{ResponseWriter: recorder, end: func() { ends++ }}
				w.Header().Set("Content-Type", test.media)
				write := func(parts []string) {
					for _, part := range parts {
						if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
							t.Errorf("wrote %d of %d, %v", n, len(part), err)
						}
					}
				}
				write(test.before)
				assert.Equal(t, 0, ends, "it ended too early")
				w.finish()
				write(test.after)
				if got := ends > 0; got == test.late {
					t.Errorf("ended at once: %t", got)
				}
				time.Sleep(2 * lastEvent) // of the fake clock
				synctest.Wait()
				if ends == 0 || recorder.Body.String() != test.want {
					t.Errorf("ended: %t, after %q, want %q", ends > 0, recorder.Body, test.want)
				}
			})
		})
	}
}
