// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/munnerz/goautoneg"
	"sigs.k8s.io/yaml"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/warning"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/tables"
)

// answer is what a search has found.
type answer struct {
	kind    store.Kind
	objects []store.Found
	meta    metav1.ListMeta
	// single is set if the answer is one object, not a list.
	single bool
	// staleness is the value of stalenessHeader. It is empty if nobody asked.
	staleness string
}

// complete sets what a list has besides its items, and warns if it is cut.
func (a *answer) complete(ctx context.Context, page store.Page, q *query.Query) {
	a.meta.ResourceVersion = strconv.FormatInt(page.Revision, 10)
	if page.Remaining >= 0 {
		a.meta.RemainingItemCount = &page.Remaining
	}
	if q.WithStaleness {
		a.staleness = stalenessOf(page.Heard)
	}
	warnStale(ctx, page.Heard)
	for _, cluster := range page.LeftOut {
		warning.AddWarning(ctx, "", fmt.Sprintf("cluster %s is left out: its RBAC names too many namespaces and objects for you; name the cluster or namespaces",
			cluster))
	}
	if !page.More {
		return
	}
	if q.WithContinue || q.After != nil || page.Full { // who sends a token reads tokens
		a.meta.Continue = page.Next.String()
		return
	}
	rest := "more follow"
	if page.Remaining >= 0 {
		rest = strconv.FormatInt(page.Remaining, 10) + " more follow"
	}
	warning.AddWarning(ctx, "", fmt.Sprintf("the limit of %d has cut the list, %s: add the label search.clusterpedia.io/with-continue=true, or the parameter withContinue=true",
		q.Limit, rest))
}

// form is how an answer is written.
type form string

const (
	plain        form = ""
	table        form = "Table"
	metadataOnly form = "PartialObjectMetadata"
)

// representation is a form, in JSON or in YAML.
type representation struct {
	form
	yaml bool
}

// accepted returns the first representation that the client accepts and that exists here. Watches are in JSON.
func accepted(req *http.Request) (representation, error) {
	header := req.Header.Get("Accept")
	if header == "" {
		return representation{}, nil
	}
	for _, clause := range goautoneg.ParseAccept(header) {
		r := representation{yaml: clause.SubType == "yaml"}
		isJSON := clause.SubType == "json" || clause.SubType == "*"
		if clause.Type != "application" && clause.Type != "*" || !isJSON && !r.yaml || r.yaml && isWatch(req.URL.Query()) {
			continue
		}
		switch as := clause.Params["as"]; {
		case as == "":
			return r, nil
		case clause.Params["g"] != metav1.GroupName || clause.Params["v"] != "v1":
		case as == "Table":
			r.form = table
			return r, nil
		case as == "PartialObjectMetadata", as == "PartialObjectMetadataList":
			r.form = metadataOnly
			return r, nil
		}
	}
	return representation{}, &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
		Message: "objects of clusters are served as application/json and application/yaml, and as Table or PartialObjectMetadata of meta.k8s.io/v1 in them; watches as application/json",
	}}
}

// copies returns how often the objects of an answer are in memory, roughly.
func (r representation) copies() int64 {
	switch {
	case r.yaml:
		return 4
	case r.form != plain:
		return 2
	}
	return 1
}

// write writes an answer. An error comes before anything is written.
func (r representation) write(w http.ResponseWriter, req *http.Request, a answer) error {
	parts, err := r.parts(req, a)
	contentType := jsonType
	if err == nil && r.yaml {
		contentType = yamlType
		var text []byte
		text, err = toYAML(slices.Concat(parts...))
		parts = [][]byte{text}
	}
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-cache, private")
	a.setHeader(w.Header())
	inTime(w, writeTimeout, func() error { //nolint:errcheck // the client is gone
		buffer := bufio.NewWriterSize(w, 32<<10)
		for _, part := range parts {
			buffer.Write(part) //nolint:errcheck // Flush has it
		}
		return buffer.Flush()
	})
	return nil
}

// toYAML returns a text of JSON in YAML. The library takes JSON for YAML, which reads some characters in another way, or not at all.
func toYAML(text []byte) ([]byte, error) {
	escaped := make([]byte, 0, len(text)+len(text)/16)
	for _, c := range string(text) {
		if unicode.IsControl(c) && c > unicode.MaxASCII || slices.Contains([]rune{0x7f, 0x2028, 0x2029, 0xfeff, 0xfffe, 0xffff}, c) {
			escaped = fmt.Appendf(escaped, `\u%04x`, c)
		} else {
			escaped = utf8.AppendRune(escaped, c)
		}
	}
	return yaml.JSONToYAML(escaped)
}

// parts returns the parts of an answer in JSON.
func (r representation) parts(req *http.Request, a answer) ([][]byte, error) {
	if r.form == table {
		text, err := a.table(req)
		return [][]byte{text}, err
	}
	apiVersion, kind := a.kind.GroupVersionKind().ToAPIVersionAndKind()
	kind += "List"
	if r.form == metadataOnly {
		apiVersion, kind = metav1.SchemeGroupVersion.String(), "PartialObjectMetadataList"
		for i := range a.objects {
			var err error
			if a.objects[i].JSON, err = tables.Metadata(a.objects[i].JSON); err != nil {
				return nil, err
			}
		}
	}
	if a.single {
		return [][]byte{a.objects[0].JSON}, nil
	}
	meta, err := json.Marshal(a.meta)
	if err != nil {
		return nil, err
	}
	// The objects are as the database has them, and never copied into one text.
	parts := make([][]byte, 0, 2*len(a.objects)+2)
	parts = append(parts, fmt.Appendf(nil, `{"kind":%s,"apiVersion":%s,"metadata":%s,"items":[`, quoted(kind), quoted(apiVersion), meta))
	for i, object := range a.objects {
		if i > 0 {
			parts = append(parts, []byte{','})
		}
		parts = append(parts, object.JSON)
	}
	return append(parts, []byte("]}\n")), nil
}

// quoted returns a text as a string of JSON.
func quoted(text string) []byte {
	encoded, _ := json.Marshal(text) // strings can be marshalled
	return encoded
}

func (a *answer) table(req *http.Request) ([]byte, error) {
	rows := make([]tables.Row, 0, len(a.objects))
	for _, object := range a.objects {
		rows = append(rows, tables.Row{Cluster: object.Cluster, JSON: object.JSON})
	}
	shown, err := tables.New(req.Context(), a.kind.GroupVersionKind(), a.kind.Columns, rows, metav1.IncludeObjectPolicy(req.URL.Query().Get("includeObject")))
	if err != nil {
		return nil, err
	}
	if !a.single {
		shown.ListMeta = a.meta
	}
	return json.Marshal(shown)
}
