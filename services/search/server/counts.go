// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/warning"

	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/rights"
	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// counts answers with the numbers of objects of a query by its groups.
func (h *Handler) counts(w http.ResponseWriter, req *http.Request, as representation, patterns []schema.GroupVersionResource,
	q *query.Query) error {
	ctx := req.Context()
	found, behind, err := h.counted(ctx, patterns, q)
	if err != nil {
		return err
	}
	var a answer
	a.complete(ctx, found.Page, q)
	warnBehind(ctx, q, behind)
	a.setHeader(w.Header())
	return h.writeCounts(w, req, as, countsAnswer(q, found))
}

// counted counts the objects of a query as the reader of a request sees them. Behind is whether newer rights may show more.
func (h *Handler) counted(ctx context.Context, patterns []schema.GroupVersionResource, q *query.Query) (found *store.Counts, behind bool,
	err error) {
	release, err := h.searches.acquire(ctx, queueTimeout)
	if err != nil {
		return nil, false, asStatus(ctx, err)
	}
	defer release()
	memory := h.budget.hold(ctx)
	defer memory.release()
	found = &store.Counts{}
	err = h.asReader(ctx, func(v *rights.AccessSet, s *store.Store) error {
		behind = v.IsBehind()
		return memory.search(func() error {
			counts, err := s.Within(memory.bounds(false)).Counts(ctx, patterns, q)
			if err == nil {
				found = counts
			}
			return err
		})
	})
	if err != nil && !errors.Is(err, streams.ErrUnknownKind) { // no cluster has such resources
		return nil, false, h.asStatus(ctx, err)
	}
	if q.ResourceVersion > found.Revision {
		return nil, false, tooLarge(q.ResourceVersion, found.Revision)
	}
	return found, behind, nil
}

func countsAnswer(q *query.Query, found *store.Counts) *v1beta1.ObjectCounts {
	answer := &v1beta1.ObjectCounts{
		ListMeta: metav1.ListMeta{ResourceVersion: strconv.FormatInt(found.Revision, 10)},
		Total:    found.Objects, Groups: []v1beta1.CountedGroup{},
	}
	answer.APIVersion, answer.Kind = v1beta1.GroupVersion.WithKind("ObjectCounts").ToAPIVersionAndKind()
	for _, g := range q.GroupBy {
		answer.GroupBy = append(answer.GroupBy, g.Text)
	}
	answer.OtherGroups, answer.OtherCount = found.AllGroups-int64(len(found.Groups)), found.Objects
	for _, g := range found.Groups {
		for i, value := range g.Values {
			if value == query.Container {
				g.Values[i] = "(object or list)"
			}
		}
		answer.Groups = append(answer.Groups, v1beta1.CountedGroup{Values: g.Values, Count: g.Count})
		answer.OtherCount -= g.Count
	}
	return answer
}

// writeCounts writes counts. There is no metadata of them alone.
func (h *Handler) writeCounts(w http.ResponseWriter, req *http.Request, as representation, answer *v1beta1.ObjectCounts) error {
	var document any = answer
	if as.form == table {
		document = tableOfCounts(answer)
		warnCounts(req.Context(), answer)
	}
	return h.writeDocument(w, req, as, document)
}

func warnCounts(ctx context.Context, answer *v1beta1.ObjectCounts) {
	if answer.OtherGroups > 0 {
		warning.AddWarning(ctx, "", fmt.Sprintf("%d more groups have %d objects", answer.OtherGroups, answer.OtherCount))
	}
}

func tableOfCounts(answer *v1beta1.ObjectCounts) *metav1.Table {
	of := &metav1.Table{Rows: []metav1.TableRow{}}
	of.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("Table"))
	of.ResourceVersion = answer.ResourceVersion
	of.ColumnDefinitions = []metav1.TableColumnDefinition{{Name: "Count", Type: "integer"}}
	for _, name := range answer.GroupBy {
		of.ColumnDefinitions = append(of.ColumnDefinitions, metav1.TableColumnDefinition{Name: name, Type: "string"})
	}
	for _, g := range answer.Groups {
		row := metav1.TableRow{Cells: []any{g.Count}}
		for _, value := range g.Values {
			row.Cells = append(row.Cells, value)
		}
		of.Rows = append(of.Rows, row)
	}
	return of
}
