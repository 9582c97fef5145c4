// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/warning"

	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
	"github.com/tripod-k8s/tripod/services/search/rights"
	"github.com/tripod-k8s/tripod/services/search/store"
)

// relationsSubresource is the subresource of each object with what is related to it.
const relationsSubresource = "relations"

const (
	// relatedObjects and relatedDepth are what an answer has if the client does not say, and those with most what it may ask for.
	relatedObjects, mostRelated  = 50, 100
	relatedDepth, mostDepth      = 3, 5
	relatedEvents, mostOfMessage = 20, 1024
)

// relations answers with what is related to an object.
func (h *Handler) relations(w http.ResponseWriter, req *http.Request, n *Nested) error {
	if n.Info.Verb != "get" {
		return apierrors.NewMethodNotSupported(n.Resource().GroupResource(), n.Info.Verb)
	}
	if n.Cluster == "" {
		return apierrors.NewBadRequest("an object of this name may be in several clusters: name one, as in " +
			"/resources/clusters/NAME/..., or with kubectl --cluster NAME")
	}
	as, err := accepted(req)
	if err != nil {
		return err
	}
	q, withEvents, err := relationsQuestion(req.Context(), req.URL.Query())
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	q.Cluster, q.Resource, q.Namespace, q.Name = n.Cluster, n.Resource(), n.Namespace(), n.Info.Name
	release, err := h.searches.acquire(req.Context(), queueTimeout)
	if err != nil {
		return asStatus(req.Context(), err)
	}
	defer release()
	memory := h.budget.hold(req.Context())
	defer memory.release()
	found, err := h.related(req.Context(), q, memory)
	if errors.Is(err, store.ErrNotFound) {
		return apierrors.NewNotFound(q.Resource.GroupResource(), q.Name)
	}
	if err != nil {
		return h.asStatus(req.Context(), err)
	}
	answer := relationsAnswer(n.Cluster, found)
	if withEvents {
		if answer.Events, err = h.relatedEvents(req.Context(), q, found.ID, memory); err != nil {
			return asStatus(req.Context(), err)
		}
	}
	return h.writeRelations(w, req, as, answer)
}

// relationsQuestion reads the parameters of a request for relations.
func relationsQuestion(ctx context.Context, values url.Values) (q *store.RelationsQuestion, withEvents bool, err error) {
	q, withEvents = &store.RelationsQuestion{Limit: relatedObjects, Depth: relatedDepth}, true
	for _, name := range slices.Sorted(maps.Keys(values)) {
		text := values.Get(name)
		if text == "" {
			continue
		}
		switch name {
		case "limit":
			q.Limit, err = numberUpTo(text, mostRelated)
		case "depth":
			q.Depth, err = numberUpTo(text, mostDepth)
		case "types":
			q.Types, err = relationTypes(text)
		case "withEvents":
			if withEvents, err = strconv.ParseBool(text); err != nil {
				err = fmt.Errorf("%q is neither true nor false", text)
			}
		case "pretty", "timeout", "resourceVersion", "includeObject":
		default:
			warning.AddWarning(ctx, "", fmt.Sprintf("parameter %s means nothing here: parameters are depth, limit, types, withEvents", name))
		}
		if err != nil {
			return nil, false, fmt.Errorf("parameter %s: %w", name, err)
		}
	}
	return q, withEvents, nil
}

func numberUpTo(text string, most int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("%q is not a number from 1 to %d", text, most)
	}
	return n, nil
}

func relationTypes(text string) (all []v1beta1.RelationType, err error) {
	for name := range strings.SplitSeq(text, ",") {
		of := v1beta1.RelationType(strings.TrimSpace(name))
		if !slices.Contains(v1beta1.RelationTypes, of) {
			return nil, fmt.Errorf("%q is no type of relations: types are %v", of, v1beta1.RelationTypes)
		}
		if !slices.Contains(all, of) {
			all = append(all, of)
		}
	}
	return all, nil
}

// related asks the store, by the rights that it has at that moment: the right to get the object, and those to list others.
func (h *Handler) related(ctx context.Context, q *store.RelationsQuestion, memory *held) (found *store.Related, err error) {
	listed, err := listedFrom(ctx)
	if err != nil {
		return nil, err
	}
	again := false
	err = h.asReader(ctx, func(v *rights.AccessSet, s *store.Store) error {
		if again { // rights have changed
			renewed, err := h.rights.Renew(ctx, listed)
			if err != nil {
				return err
			}
			listed = renewed
			storeListed(ctx, listed)
		}
		again = true
		if !v.Allows(q.Cluster, q.Resource.GroupResource(), q.Namespace, q.Name) {
			return apierrors.NewForbidden(q.Resource.GroupResource(), q.Name, errors.New("the right was revoked"))
		}
		q.Related = listed.Filter()
		return memory.search(func() (err error) {
			found, err = s.Within(memory.bounds(false)).Relations(ctx, q)
			return err
		})
	})
	return found, err
}

func relationsAnswer(cluster string, found *store.Related) *v1beta1.ObjectRelations {
	answer := &v1beta1.ObjectRelations{
		ObjectMeta: metav1.ObjectMeta{
			Name: found.Subject.Name, Namespace: found.Subject.Namespace, UID: types.UID(found.Subject.UID),
			ResourceVersion: strconv.FormatInt(found.Revision, 10), Annotations: map[string]string{v1beta1.ClusterAnnotation: cluster},
		},
		Object: found.Subject, Relations: found.Relations, LeftOff: found.LeftOff, Incomplete: found.Incomplete,
	}
	answer.APIVersion, answer.Kind = v1beta1.GroupVersion.WithKind("ObjectRelations").ToAPIVersionAndKind()
	return answer
}

// relatedEvents returns the latest events about the object that the reader may see, as injectEvents decides that.
func (h *Handler) relatedEvents(ctx context.Context, q *store.RelationsQuestion, id int64, memory *held) ([]v1beta1.RelatedEvent, error) {
	listed, err := listedFrom(ctx)
	if err != nil {
		return nil, err
	}
	texts, err := h.eventsOf(ctx, listed, []store.Found{{
		ID: id, Cluster: q.Cluster, Kind: schema.GroupVersionKind{Group: q.Resource.Group}, Resource: q.Resource.Resource,
	}}, memory)
	if err != nil {
		return nil, err
	}
	var all []v1beta1.RelatedEvent
	for _, text := range texts[0][:min(len(texts[0]), relatedEvents)] {
		all = append(all, relatedEvent(text))
	}
	return all, nil
}

// relatedEvent reads what counts of an event. What does not fit is left out.
func relatedEvent(text []byte) v1beta1.RelatedEvent {
	var event struct {
		Metadata struct {
			Name              string     `json:"name"`
			Namespace         string     `json:"namespace"`
			CreationTimestamp *time.Time `json:"creationTimestamp"`
		} `json:"metadata"`
		Type, Reason, Message, ReportingComponent string
		Count                                     int64
		Source                                    struct{ Component string }
		LastTimestamp, EventTime                  *time.Time
		Series                                    *struct {
			Count            int64
			LastObservedTime *time.Time
		}
	}
	json.Unmarshal(text, &event) //nolint:errcheck // what was read until then counts
	e := v1beta1.RelatedEvent{
		Name: event.Metadata.Name, Namespace: event.Metadata.Namespace, Type: event.Type, Reason: event.Reason,
		Message: cut(event.Message), Count: event.Count, Component: cmp.Or(event.Source.Component, event.ReportingComponent),
	}
	seen := []*time.Time{event.LastTimestamp, event.EventTime, event.Metadata.CreationTimestamp}
	if event.Series != nil {
		e.Count, seen = event.Series.Count, append([]*time.Time{event.Series.LastObservedTime}, seen...)
	}
	if i := slices.IndexFunc(seen, func(at *time.Time) bool { return at != nil && !at.IsZero() }); i >= 0 {
		e.LastSeen = new(metav1.NewTime(seen[i].UTC().Truncate(time.Second)))
	}
	return e
}

// cut returns the first characters of a message.
func cut(message string) string {
	if utf8.RuneCountInString(message) <= mostOfMessage {
		return message
	}
	return string([]rune(message)[:mostOfMessage])
}

// writeRelations writes an answer about relations.
func (h *Handler) writeRelations(w http.ResponseWriter, req *http.Request, as representation, answer *v1beta1.ObjectRelations) error {
	var document any = answer
	switch as.form {
	case table:
		of, err := tableOfRelations(answer)
		if err != nil {
			return err
		}
		warnRelations(req.Context(), answer)
		document = of
	case metadataOnly:
		only := metav1.PartialObjectMetadata{ObjectMeta: answer.ObjectMeta}
		only.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
		document = only
	case plain:
	}
	return h.writeDocument(w, req, as, document)
}

// warnRelations warns of what a table does not show.
func warnRelations(ctx context.Context, answer *v1beta1.ObjectRelations) {
	for _, left := range answer.LeftOff {
		more := ""
		if left.More {
			more = "at least "
		}
		resource := schema.GroupResource{Group: left.Group, Resource: left.Resource}
		warning.AddWarning(ctx, "", fmt.Sprintf("%s%d %s are left off (%s, %s)", more, left.Count, resource, left.Type, left.Direction))
	}
	if answer.Incomplete {
		warning.AddWarning(ctx, "", "relations may be missing: there are too many objects to look at for one answer")
	}
}

// relationColumns are those of relations in a table.
var relationColumns = []metav1.TableColumnDefinition{
	{Name: "Relation", Type: "string"}, {Name: "Direction", Type: "string"}, {Name: "Kind", Type: "string"},
	{Name: "Namespace", Type: "string"}, {Name: "Name", Type: "string", Format: "name"}, {Name: "Via", Type: "string"},
	{Name: "Age", Type: "string"}, {Name: "Fields", Type: "string", Priority: 1},
}

func tableOfRelations(answer *v1beta1.ObjectRelations) (*metav1.Table, error) {
	of := &metav1.Table{ColumnDefinitions: relationColumns, Rows: []metav1.TableRow{}}
	of.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("Table"))
	for _, r := range answer.Relations {
		o, via, age := r.Object, "", "<unknown>"
		if r.Via != nil {
			via = schema.GroupKind{Group: r.Via.Group, Kind: r.Via.Kind}.String() + "/" + r.Via.Name
		}
		only := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: o.Name, Namespace: o.Namespace, UID: types.UID(o.UID)}}
		only.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
		if o.CreationTimestamp != nil {
			only.CreationTimestamp, age = *o.CreationTimestamp, metatable.ConvertToHumanReadableDateType(*o.CreationTimestamp)
		}
		text, err := json.Marshal(only)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		kind := schema.GroupKind{Group: o.Group, Kind: o.Kind}.String()
		of.Rows = append(of.Rows, metav1.TableRow{
			Cells:  []any{string(r.Type), string(r.Direction), kind, o.Namespace, o.Name, via, age, strings.Join(r.Fields, ",")},
			Object: runtime.RawExtension{Raw: text},
		})
	}
	return of, nil
}
