// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

// FuzzWholeEvents ends a watch while events come in any parts. The client has whole events, as the framer of Kubernetes reads them.
func FuzzWholeEvents(f *testing.F) {
	f.Add([]byte("first event"), []byte{3, 200, 1}, uint8(1), true)
	f.Add([]byte{0}, []byte{1, 1, 1, 1, 1, 1}, uint8(3), false)
	f.Fuzz(func(t *testing.T, event, parts []byte, endAfter uint8, isJSON bool) {
		var stream bytes.Buffer
		framer, media := runtime.Framer(protobuf.LengthDelimitedFramer), "application/vnd.kubernetes.protobuf;stream=watch"
		if isJSON {
			framer, media = json.Framer, "application/json"
			event = append(bytes.ReplaceAll(bytes.ReplaceAll(event, []byte("\n"), nil), []byte{'"'}, nil), '\n')
		}
		for range 3 {
			_, err := framer.NewFrameWriter(&stream).Write(event)
			require.NoError(t, err)
		}
		whole := stream.Len() / 3
		client := httptest.NewRecorder()
		client.Header().Set("Content-Type", media)
		ended := false
		w := &wholeEvents{ResponseWriter: client, end: func() { ended = true }}
		for i := 0; stream.Len() > 0; i++ {
			if i == int(endAfter) {
				w.finish()
			}
			n := stream.Len()
			if i < len(parts) {
				n = int(parts[i])
			}
			_, err := w.Write(stream.Next(n))
			require.NoError(t, err)
			if ended {
				break
			}
		}
		got := client.Body.Len()
		if ended {
			require.Zero(t, got%max(whole, 1), "the watch ended within an event: %d bytes of events with %d", got, whole)
		} else {
			require.Equal(t, 3*whole, got)
		}
	})
}
