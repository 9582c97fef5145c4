// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"golang.org/x/net/websocket"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"

	"github.com/tripod-k8s/tripod/services/search/store/streams"
	"github.com/tripod-k8s/tripod/services/search/tables"
)

// eventWriter writes the events of a watch.
type eventWriter struct {
	response http.ResponseWriter
	buffer   *bufio.Writer
	req      *http.Request
	as       form
	kind     streams.Kind
	// table makes rows. It is nil until the first, of which alone the columns are written.
	table *tables.Table
	// socket is set while the client reads the events from a WebSocket. Each of them is a message.
	socket *websocket.Conn
}

func newEventWriter(w http.ResponseWriter, req *http.Request, as form, kind streams.Kind) *eventWriter {
	return &eventWriter{response: w, buffer: bufio.NewWriterSize(w, 32<<10), req: req, as: as, kind: kind}
}

func (e *eventWriter) begin() error {
	if e.socket != nil {
		return nil // the handshake was the header
	}
	e.response.Header().Set("Content-Type", jsonType)
	e.response.Header().Set("Cache-Control", "no-cache, private")
	e.response.WriteHeader(http.StatusOK)
	return e.flush()
}

// flush sends what was written.
func (e *eventWriter) flush() error {
	if e.socket != nil {
		return nil
	}
	if err := e.buffer.Flush(); err != nil {
		return err
	}
	return http.NewResponseController(e.response).Flush()
}

// write writes an event about an object of a cluster.
func (e *eventWriter) write(event watch.EventType, cluster string, object []byte) error {
	object, err := e.shown(cluster, object)
	if err != nil {
		return err
	}
	return e.raw(event, object)
}

// shown returns an object in the form in which the client gets it.
func (e *eventWriter) shown(cluster string, object []byte) ([]byte, error) {
	switch e.as {
	case table:
		return e.row(cluster, object)
	case metadataOnly:
		return tables.Metadata(object)
	}
	return object, nil
}

func (e *eventWriter) raw(event watch.EventType, object []byte) error {
	parts := [][]byte{[]byte(`{"type":"` + string(event) + `","object":`), object, []byte("}\n")}
	if e.socket != nil {
		return websocket.Message.Send(e.socket, string(bytes.Join(parts, nil)))
	}
	for _, part := range parts {
		if _, err := e.buffer.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// row returns a table with one row. Only the first has columns.
func (e *eventWriter) row(cluster string, object []byte) ([]byte, error) {
	shown := metav1.Table{TypeMeta: metav1.TypeMeta{APIVersion: metav1.SchemeGroupVersion.String(), Kind: "Table"}}
	if e.table == nil {
		include := metav1.IncludeObjectPolicy(e.req.URL.Query().Get("includeObject"))
		var err error
		if e.table, err = tables.New(e.req.Context(), e.kind.GroupVersionKind(), e.kind.Columns, include); err != nil {
			return nil, err
		}
		shown.ColumnDefinitions = e.table.Columns
	}
	row, err := largeRows.of(e.req.Context(), e, cluster, object)
	if err != nil {
		return nil, err
	}
	shown.Rows = []metav1.TableRow{row}
	return json.Marshal(shown)
}

// bookmark writes that the client knows everything up to a revision. initialEnd is set for the end of the objects that a watch begins with.
func (e *eventWriter) bookmark(revision int64, initialEnd bool) error {
	apiVersion, kind := e.kind.GroupVersionKind().ToAPIVersionAndKind()
	annotations := ""
	if initialEnd {
		annotations = fmt.Sprintf(`,"annotations":{%q:"true"}`, metav1.InitialEventsAnnotationKey)
	}
	object := fmt.Sprintf(`{"kind":%s,"apiVersion":%s,"metadata":{"resourceVersion":%q,"creationTimestamp":null%s}}`,
		quoted(kind), quoted(apiVersion), strconv.FormatInt(revision, 10), annotations)
	return e.write(watch.Bookmark, "", []byte(object))
}

// fail writes why the watch ends.
func (e *eventWriter) fail(err error) error {
	text, err := json.Marshal(responsewriters.ErrorToAPIStatus(err))
	if err != nil {
		return err
	}
	if err := e.raw(watch.Error, text); err != nil {
		return err
	}
	return e.flush()
}
