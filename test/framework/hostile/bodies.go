// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// The places of a lie.
func toLists(r *Request) bool     { return r.Resource == "configmaps" && r.IsList() }
func toWatches(r *Request) bool   { return r.Resource == "configmaps" && r.Watch && !r.Streamed }
func toEvents(r *Request) bool    { return r.Resource == "configmaps" && r.Watch }
func toVersion(r *Request) bool   { return r.URL.Path == "/version" }
func toGroups(r *Request) bool    { return r.URL.Path == "/apis" }
func toResources(r *Request) bool { return r.URL.Path == "/api/v1" }
func toBoats(r *Request) bool     { return r.URL.Path == "/apis/example.com/v1" }
func toAll(*Request) bool         { return true }

// answer has a lie in some places.
func answer(where func(*Request) bool, serve func(http.ResponseWriter, *Request)) func(http.ResponseWriter, *Request) bool {
	return func(w http.ResponseWriter, r *Request) bool {
		if !where(r) {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		serve(w, r)
		return true
	}
}

// begin is how an answer of a kind begins: an object in a list, or in an event.
func begin(r *Request) string {
	if r.Watch {
		return `{"type": "ADDED", "object": {"metadata": {"name": "endless", "namespace": "default", "resourceVersion": "6"}, "data": {"a": "`
	}
	return `{"kind": "List", "apiVersion": "v1", "metadata": {}, "items": [{"metadata": {"name": "endless", "namespace": "default"}, "data": {"a": "`
}

// slowly sends a byte each tenth of a second, for ever.
func slowly(w http.ResponseWriter, r *Request) {
	send(w, begin(r))
	for {
		select {
		case <-r.Context().Done():
			return
		case <-time.After(100 * time.Millisecond):
			send(w, "a")
		}
	}
}

// silently takes a request and sends nothing.
func silently(_ http.ResponseWriter, r *Request) { <-r.Context().Done() }

// endlessly repeats a text after a beginning.
func endlessly(code int, beginning, repeated string) func(http.ResponseWriter, *Request) {
	chunk := []byte(strings.Repeat(repeated, max(1, (64<<10)/len(repeated))))
	return func(w http.ResponseWriter, r *Request) {
		w.WriteHeader(code)
		if beginning == "" {
			beginning := begin(r)
			send(w, beginning)
		} else {
			send(w, beginning)
		}
		for {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}
}

// endlessObjects sends small objects, each with a name of its own, for ever.
func endlessObjects(w http.ResponseWriter, r *Request) {
	if !r.Watch {
		send(w, `{"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "10"}, "items": [`)
	}
	for i := 0; ; i++ {
		object := Object("configmaps", fmt.Sprint("many-", i), fmt.Sprint(100+i), `, "data": {"a": "`+strings.Repeat("a", 2000)+`"}`)
		text := object + ","
		if r.Watch {
			text = event("ADDED", object)
		}
		if _, err := io.WriteString(w, text); err != nil {
			return
		}
	}
}

// bombSize is the size of a page that is sent as less than a thousandth of that.
const bombSize = 1 << 30

// bomb sends a beginning and then so many blanks or letters that they fill memory, compressed. The format allows parts one after the other,
// so that one small part is enough for all.
func bomb(code int, beginning string) func(http.ResponseWriter, *Request) {
	const size = 16 << 20
	part := compressed(strings.Repeat("a", size))
	return func(w http.ResponseWriter, r *Request) {
		text := beginning
		if text == "" {
			text = begin(r)
		}
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(code)
		w.Write(compressed(text)) //nolint:errcheck // the client is gone
		for range bombSize / size {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
		if !r.Watch {
			w.Write(compressed(`"}}]}`)) //nolint:errcheck // the client is gone
			return
		}
		w.Write(compressed(`"}}}`)) //nolint:errcheck // the client is gone
		<-r.Context().Done()
	}
}

func compressed(text string) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Write([]byte(text)) //nolint:errcheck // a buffer takes all
	w.Close()             //nolint:errcheck // a buffer takes all
	return out.Bytes()
}

// refuse answers with a Status.
func refuse(code int, header ...string) func(http.ResponseWriter, *Request) {
	return func(w http.ResponseWriter, _ *Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		send(w, fmt.Sprintf(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "a lie", "code": %d}`, code))
	}
}

// withoutStreaming refuses streaming lists, which would go on as the watch, and answers other requests.
func withoutStreaming(serve func(http.ResponseWriter, *Request)) func(http.ResponseWriter, *Request) {
	return func(w http.ResponseWriter, r *Request) {
		if r.Streamed {
			refuse(http.StatusBadRequest)(w, r)
			return
		}
		serve(w, r)
	}
}

// text answers with a text.
func text(text string) func(http.ResponseWriter, *Request) {
	return func(w http.ResponseWriter, _ *Request) { send(w, text) }
}

// breakOff sends the beginning of an answer, and ends the connection or stream.
func breakOff(w http.ResponseWriter, r *Request) {
	send(w, begin(r))
	panic(http.ErrAbortHandler)
}

// headers sends header fields of 512 KiB, and trailers.
func headers(w http.ResponseWriter, r *Request) {
	for i := range 64 {
		w.Header().Set(fmt.Sprint("X-Lie-", i), strings.Repeat("a", 8<<10))
	}
	w.Header().Set("Trailer", "X-Lie-Trailer")
	sendObjects(w, r, true, Object("configmaps", Honest, "5", ""))
	w.Header().Set("X-Lie-Trailer", strings.Repeat("a", 1<<20))
}

// hints sends informational answers for ever.
func hints(w http.ResponseWriter, r *Request) {
	w.Header().Set("Link", "</lie>; rel=preload")
	for r.Context().Err() == nil {
		w.WriteHeader(http.StatusEarlyHints)
	}
}
