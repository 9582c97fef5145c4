// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/munnerz/goautoneg"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
	"github.com/tripod-k8s/tripod/services/search/tables"
)

// answer is what a search has found.
type answer struct {
	kind    streams.Kind
	objects []store.Found
	meta    metav1.ListMeta
	// single is set if the answer is one object, not a list.
	single bool
	// collection is the name of the collection that the answer is, or empty. onlyMetadata is set if its objects have no content.
	collection   string
	onlyMetadata bool
	// staleness is the value of stalenessHeader. It is empty if the client did not ask.
	staleness string
}

// complete sets what a list has besides its items, and warns if it is cut.
func (a *answer) complete(ctx context.Context, page store.Page, q *query.Query) {
	a.meta.ResourceVersion = strconv.FormatInt(page.Revision, 10)
	if page.Remaining >= 0 {
		a.meta.RemainingItemCount = &page.Remaining
	}
	if q.WithStaleness {
		a.staleness = stalenessOf(page.SyncedAt)
	}
	warnStale(ctx, page.SyncedAt)
	for _, cluster := range page.LeftOut {
		warning.AddWarning(ctx, "", fmt.Sprintf("cluster %s is left out: its RBAC names too many namespaces and objects for you; name the "+
			"cluster or namespaces",
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
	warning.AddWarning(ctx, "", fmt.Sprintf("the limit of %d has cut the list, %s: add the label search.clusterpedia.io/with-continue=true, "+
		"or the parameter withContinue=true",
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
		Message: "objects of clusters are served as application/json and application/yaml, and as Table or PartialObjectMetadata of " +
			"meta.k8s.io/v1 in them; watches as application/json",
	}}
}

// write writes an answer. An error comes before anything is written.
func (r representation) write(w http.ResponseWriter, req *http.Request, a answer) error {
	d, err := r.document(req, &a)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	contentType, write := jsonType, d.writeJSON
	if r.yaml {
		contentType, write = yamlType, d.writeYAML
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-cache, private")
	a.setHeader(w.Header())
	err = inTime(w, writeTimeout, func() error {
		buffer := bufio.NewWriterSize(w, 32<<10)
		if err := write(req.Context(), buffer); err != nil {
			return err
		}
		return buffer.Flush()
	})
	if errors.Is(err, errItem) {
		klog.ErrorS(err, "An answer ends too early")
		panic(http.ErrAbortHandler) // no client takes it for a whole one
	}
	return nil // or the client is gone
}

// head is a list without its items.
type head struct {
	Kind            string `json:"kind"`
	APIVersion      string `json:"apiVersion"`
	metav1.ListMeta `json:"metadata"`
	Columns         []metav1.TableColumnDefinition `json:"columnDefinitions,omitempty"`
}

func tableHead(metadata metav1.ListMeta, of *tables.Table) head {
	return head{Kind: "Table", APIVersion: metav1.SchemeGroupVersion.String(), ListMeta: metadata, Columns: of.Columns}
}

// document returns what is written of an answer.
func (r representation) document(req *http.Request, a *answer) (*document, error) {
	if a.collection != "" {
		return r.ofCollection(req, a)
	}
	d := &document{number: len(a.objects), single: a.single && r.form != table}
	d.item = func(i int) ([]byte, error) { return a.objects[i].JSON, nil }
	apiVersion, kind := a.kind.GroupVersionKind().ToAPIVersionAndKind()
	head := head{Kind: kind + "List", APIVersion: apiVersion, ListMeta: a.meta}
	d.list = "items"
	switch r.form {
	case metadataOnly:
		head.Kind, head.APIVersion = "PartialObjectMetadataList", metav1.SchemeGroupVersion.String()
		d.item = func(i int) ([]byte, error) { return tables.Metadata(a.objects[i].JSON) }
	case table:
		ctx := req.Context()
		of, err := tables.New(ctx, a.kind.GroupVersionKind(), a.kind.Columns, metav1.IncludeObjectPolicy(req.URL.Query().Get("includeObject")))
		if err != nil {
			return nil, err
		}
		if a.single {
			head.ListMeta = metav1.ListMeta{}
		}
		head, d.list = tableHead(head.ListMeta, of), "rows"
		d.item = func(i int) ([]byte, error) { return rowOf(ctx, of, a.objects[i].Cluster, a.objects[i].JSON) }
	}
	var err error
	d.head, err = json.Marshal(head)
	return d, err
}

// rowOf returns a row of a table in JSON.
func rowOf(ctx context.Context, of *tables.Table, cluster string, object []byte) ([]byte, error) {
	done, err := decoding(ctx, object)
	if err != nil {
		return nil, err
	}
	defer done()
	row, err := of.Row(ctx, cluster, object)
	if err != nil {
		return nil, err
	}
	return json.Marshal(row)
}

// quoted returns a text as a string of JSON.
func quoted(text string) []byte {
	encoded, _ := json.Marshal(text) // strings can be marshalled
	return encoded
}
