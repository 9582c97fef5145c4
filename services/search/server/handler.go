// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/service"
	"github.com/tripod-k8s/tripod/services/search/options"
	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/rights"
	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/database"
	"github.com/tripod-k8s/tripod/services/search/store/history"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
	"github.com/tripod-k8s/tripod/services/search/watchcache"
)

// Handler answers nested requests and those for collections, and hands all others on.
type Handler struct {
	store      *store.Store
	rights     *rights.Rights
	watchCache *watchcache.Cache
	next       http.Handler
	// decisionInterval, writeTimeout and initialTime are the constants, except in tests.
	decisionInterval, writeTimeout, initialTime time.Duration
	// searches limits searches of the database, and judged watches that look at objects that have changed.
	searches, judged *userLimiter
	// waitTimeout is watchQueueTimeout, except in tests.
	waitTimeout time.Duration
	watches     *watchLimiter
	budget      *budget
}

// decisionInterval is how often a watch asks whether it is still allowed.
const decisionInterval = 10 * time.Second

// NewHandler returns a handler that searches a store by the rights of readers. next answers requests that are not nested.
func NewHandler(s *store.Store, of *rights.Rights, next http.Handler) *Handler {
	return newHandler(s, of, next, newBudget(options.StandardAnswerMemory))
}

func newHandler(s *store.Store, of *rights.Rights, next http.Handler, b *budget) *Handler {
	return &Handler{
		store: s, rights: of, watchCache: watchcache.New(s), next: next, decisionInterval: decisionInterval, writeTimeout: writeTimeout,
		initialTime: initialTime,
		searches:    newUserLimiter(searchesOfUser), judged: newUserLimiter(judgedOfUser), waitTimeout: watchQueueTimeout,
		watches: &watchLimiter{}, budget: b,
	}
}

// before returns the handler with another one for what it does not answer. Both share limiters and memory.
func (h *Handler) before(next http.Handler) *Handler {
	other := *h
	other.next = next
	return &other
}

// close ends what the handler reads for all watches. They end then.
func (h *Handler) close() { h.watchCache.Close() }

// ServeHTTP implements http.Handler. It answers what RequestInfo has found.
func (h *Handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	n := nestedOf(req.Context(), req.URL.Path)
	if n == nil {
		h.next.ServeHTTP(w, req)
		return
	}
	if err := h.answer(w, req, n); err != nil {
		writeError(w, req, n.Info.APIGroup, n.Info.APIVersion, err)
	}
}

// answer answers a nested request. An error is for the client, before anything was written.
func (h *Handler) answer(w http.ResponseWriter, req *http.Request, n *Nested) error {
	if n.Cluster != "" {
		has, err := h.store.HasCluster(req.Context(), n.Cluster)
		if err != nil {
			return asStatus(req.Context(), err)
		}
		if has && (!n.Info.IsResourceRequest || n.class == classReview) {
			v, err := accessSetFrom(req.Context())
			if err != nil {
				return err
			}
			has = v.AllowsAnyIn(n.Cluster)
		}
		if !has {
			return notFound(fmt.Sprintf("cluster %q is not searched", n.Cluster))
		}
	}
	//exhaustive:enforce
	switch n.class {
	case classObjects:
		return h.objects(w, req, n)
	case classRelations:
		return h.relations(w, req, n)
	case classSubresource:
		return noSubresource(n)
	case classReview:
		return h.review(w, req, n)
	case classCollection:
		return h.collection(w, req, n.collection)
	case classClusters:
		return h.clusters(w, req)
	case classOpenAPI:
		return h.openAPI(w, req, n)
	case classDiscovery:
		return h.discover(w, req, n)
	case classVersion:
		return h.version(w, req, n)
	case classHealth:
		return health(w, req)
	case classOther:
	}
	return notFound(n.Path + " is not served for clusters")
}

// objects answers a request for objects.
func (h *Handler) objects(w http.ResponseWriter, req *http.Request, n *Nested) error {
	switch n.Info.Verb {
	case "get":
		return h.get(w, req, n)
	case "list":
		return h.list(w, req, n)
	case "watch":
		return h.watch(w, req, n)
	}
	return readOnly(n)
}

// clusters answers with the names of all clusters in which the reader may see something.
func (h *Handler) clusters(w http.ResponseWriter, req *http.Request) error {
	names, _, err := h.readableClusters(req.Context())
	if err != nil {
		return err
	}
	list := metav1.PartialObjectMetadataList{Items: []metav1.PartialObjectMetadata{}}
	list.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadataList"))
	for _, name := range names {
		list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return h.writeJSON(w, req, jsonType, list)
}

// get answers with one object.
func (h *Handler) get(w http.ResponseWriter, req *http.Request, n *Nested) error {
	if n.Cluster == "" {
		return apierrors.NewBadRequest("an object of this name may be in several clusters: name one (kubectl --cluster NAME), or list those of " +
			"all (kubectl get -l search.clusterpedia.io/names=NAME)")
	}
	as, err := accepted(req)
	if err != nil {
		return err
	}
	kind, err := h.kind(req, n)
	if err != nil {
		return err
	}
	staleness, err := h.stalenessOfOne(req, n)
	if err != nil {
		return err
	}
	resource, namespace := n.Resource(), n.Namespace()
	var found store.Found
	memory := h.budget.hold(req.Context())
	defer memory.release()
	err = h.asReader(req.Context(), func(v *rights.AccessSet, s *store.Store) error {
		s = s.Within(memory.bounds(false))
		if !v.Allows(n.Cluster, resource.GroupResource(), namespace, n.Info.Name) { // since the request was authorized
			return apierrors.NewForbidden(resource.GroupResource(), n.Info.Name, errors.New("the right was revoked"))
		}
		return memory.search(func() (err error) {
			found, err = object(req, s, n.Cluster, resource, namespace, n.Info.Name)
			return err
		})
	})
	if errors.Is(err, store.ErrNotFound) {
		return apierrors.NewNotFound(resource.GroupResource(), n.Info.Name)
	}
	if err != nil {
		return h.asStatus(req.Context(), err)
	}
	return as.write(w, req, answer{kind: kind, objects: []store.Found{found}, single: true, staleness: staleness})
}

// object returns an object as it is, or as it was if the request says when.
func object(req *http.Request, s *store.Store, cluster string, resource schema.GroupVersionResource, namespace, name string) (store.Found,
	error) {
	at := req.URL.Query().Get("at")
	if at == "" {
		return s.Get(req.Context(), cluster, resource, namespace, name)
	}
	moment, err := query.ParseMoment(at)
	if err != nil {
		return store.Found{}, apierrors.NewBadRequest("parameter at: " + err.Error())
	}
	return s.GetAt(req.Context(), moment, cluster, resource, namespace, name)
}

// list answers with a list of objects.
func (h *Handler) list(w http.ResponseWriter, req *http.Request, n *Nested) error {
	as, err := accepted(req)
	if err != nil {
		return err
	}
	if _, err := listOptions(req); err != nil {
		return err
	}
	q, kind, err := h.question(req, n)
	if err != nil {
		return err
	}
	if len(q.GroupBy) > 0 {
		return h.counts(w, req, as, []schema.GroupVersionResource{n.Resource()}, q)
	}
	if q.OnlyMetadata && as.form == plain {
		as.form = metadataOnly
	}
	if values := req.URL.Query(); n.Cluster != "" && values.Has("limit") && !values.Has("withContinue") {
		q.WithContinue = true // as the cluster itself does. Clients such as Headlamp would take a cut list for all objects
	}
	memory := h.budget.hold(req.Context())
	defer memory.release()
	a, err := h.search(req, []schema.GroupVersionResource{n.Resource()}, q, memory)
	if err != nil {
		return err
	}
	a.kind = kind
	return as.write(w, req, a)
}

// question reads what a list or a watch asks for.
func (h *Handler) question(req *http.Request, n *Nested) (*query.Query, streams.Kind, error) {
	values := req.URL.Query()
	q, err := query.Parse(values)
	if err != nil {
		return nil, streams.Kind{}, apierrors.NewBadRequest(err.Error())
	}
	warnParameters(req.Context(), q)
	kind, err := h.kind(req, n)
	if err != nil {
		return nil, kind, err
	}
	if namespace := n.Namespace(); namespace != "" {
		q.Namespaces = query.Choice{In: []string{namespace}}
	}
	if n.Cluster != "" {
		q.Clusters, q.SameClusters = query.Choice{In: []string{n.Cluster}}, true
	}
	if values.Get("resourceVersion") == "0" && values.Has("limit") && !q.WithContinue && q.Offset == 0 && q.After == nil {
		q.Limit = 0 // kube-apiserver returns everything then, and informers of earlier releases rely on it
	}
	return q, kind, h.warnClusters(req.Context(), q)
}

// search collects the objects of a query, in memory that is held for it.
func (h *Handler) search(req *http.Request, patterns []schema.GroupVersionResource, q *query.Query, memory *held) (answer, error) {
	var a answer
	var page store.Page
	release, err := h.searches.acquire(req.Context(), queueTimeout)
	if err != nil {
		return a, asStatus(req.Context(), err)
	}
	defer release()
	behind := false
	err = h.asReader(req.Context(), func(v *rights.AccessSet, s *store.Store) error {
		behind = v.IsBehind()
		s = s.Within(memory.bounds(follows(req, q)))
		return memory.search(func() (err error) {
			a.objects = nil
			page, err = s.List(req.Context(), patterns, q, func(f store.Found) error {
				a.objects = append(a.objects, f)
				return nil
			})
			return err
		})
	})
	switch {
	case err == nil:
	case errors.Is(err, history.ErrFuture) && q.After != nil: // the database was restored from a backup
		return a, h.expired(req.Context())
	case errors.Is(err, history.ErrFuture) && q.At != nil && q.At.Revision > page.Revision:
		return a, tooLarge(q.At.Revision, page.Revision)
	default:
		return a, h.asStatus(req.Context(), err)
	}
	if q.ResourceVersion > page.Revision {
		return a, tooLarge(q.ResourceVersion, page.Revision)
	}
	if q.InjectEvents {
		if err := h.injectEvents(req.Context(), a.objects, memory); err != nil {
			return a, asStatus(req.Context(), err)
		}
	}
	a.complete(req.Context(), page, q)
	warnBehind(req.Context(), q, behind)
	return a, nil
}

// follows reports whether a client asks for the next page if it gets a token. Those of Kubernetes do if they set a limit.
func follows(req *http.Request, q *query.Query) bool {
	return q.WithContinue || q.After != nil || req.URL.Query().Has("limit")
}

// kind returns the kind that a request is for. A path with a namespace is for the clusters that have the resource in namespaces.
func (h *Handler) kind(req *http.Request, n *Nested) (streams.Kind, error) {
	kind, err := h.store.Kind(req.Context(), n.Cluster, n.Resource(), n.Namespace() != "")
	if err == nil {
		return kind, nil
	}
	if !errors.Is(err, streams.ErrUnknownKind) {
		return kind, asStatus(req.Context(), err)
	}
	where := "any cluster"
	if n.Cluster != "" {
		where = "cluster " + n.Cluster
	}
	return kind, notFound(fmt.Sprintf("%s is not searched in %s", n.Path, where))
}

// notFound is the error of a path that does not exist.
func notFound(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Message: message,
	}}
}

// asStatus returns the Status for clients of an error of a search, which may be one of the past.
func (h *Handler) asStatus(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, history.ErrPruned):
		return h.expired(ctx)
	case errors.Is(err, store.ErrOtherRights):
		return apierrors.NewResourceExpired(err.Error() + ": begin the list again")
	case errors.Is(err, history.ErrFuture), errors.Is(err, store.ErrTooManyOwners):
		return apierrors.NewBadRequest(err.Error())
	case errors.Is(err, store.ErrPosition):
		return apierrors.NewBadRequest("parameter continue: " + err.Error())
	}
	return asStatus(ctx, err)
}

// expired is the error of a search before the history.
func (h *Handler) expired(ctx context.Context) error {
	revision, at, err := h.store.HistoryBegins(ctx)
	if err != nil {
		return asStatus(ctx, err)
	}
	return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: the history begins at %s, with resourceVersion %d",
		at.UTC().Format(time.RFC3339), revision))
}

// asStatus returns the Status for clients of an error of the store. The database's own text is for the log: it may reveal its address. If
// the time of a request is over, such as the timeoutSeconds of a watch, the database is not to blame.
func asStatus(ctx context.Context, err error) error {
	if errors.Is(err, streams.ErrUnknownKind) {
		return notFound(err.Error())
	}
	if stale := asStale(err); stale != nil {
		return stale
	}
	if apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
		return err
	}
	if errors.Is(err, database.ErrTimeout) {
		klog.V(2).InfoS("A search takes too long", "err", err)
		return apierrors.NewTimeoutError("search: "+database.ErrTimeout.Error()+": name clusters, namespaces or a limit, or try again later", 5)
	}
	if ctx.Err() != nil {
		return apierrors.NewTimeoutError("the time of the request was over before search had its answer", 1)
	}
	klog.ErrorS(err, "The database does not answer a search")
	return unavailable("the database of search does not answer: try again later")
}

// codecs encode errors.
var codecs = func() serializer.CodecFactory {
	scheme := runtime.NewScheme()
	service.AddUnversioned(scheme)
	return serializer.NewCodecFactory(scheme)
}()

func writeError(w http.ResponseWriter, req *http.Request, group, version string, err error) {
	responsewriters.ErrorNegotiated(err, codecs, schema.GroupVersion{Group: group, Version: version}, w, req)
}
