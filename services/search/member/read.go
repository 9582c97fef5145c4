// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

const (
	// pageSize is how many objects a page of a list has.
	pageSize = 500
	// watchTime is the least time after which a watch is to end. Its server would choose 30 to 60 minutes.
	watchTime = 5 * time.Minute
	// listTime is how long a list may take.
	listTime = time.Hour
	// writeTime is how long an API server may take no byte of what search sends. A request waits so long for its end at most.
	writeTime = 15 * time.Second
	// endTime is how long a member has to end what it does, before search closes its connections.
	endTime = 20 * time.Second
	// emptyPages is how many pages in a row may have no objects.
	emptyPages = 10
	// firstByte is how long a member may take to begin an answer. It may have to list all objects before.
	firstByte = time.Minute
)

// source reads a resource of a member as JSON, without decoding objects.
type source struct {
	client   rest.Interface
	limiter  *memberLimiter
	resource schema.GroupVersionResource
	// namespaces are those that are read, each by itself. If there are none, one request reads all objects.
	namespaces []string
	// namespace is the one that requests are about, or empty.
	namespace string
	// follows is the watch that is read, or nil.
	follows *following
}

// event is an event of a watch.
type event struct {
	item `json:"-"`
	// quiet allows pauses before the next event.
	quiet func()
	// syncedAt is up to when all was read that had come, or zero.
	syncedAt time.Time
	// placed returns where a watch of several namespaces goes on after a resourceVersion of this event, and since when at least all of these
	// namespaces were synced. It is nil for other watches.
	placed func(resourceVersion string) (all string, syncedAt time.Time)
	Type   watch.EventType `json:"type"`
	Object jsontext.Value  `json:"object"`
}

// initialEnd reports whether the event ends the initial events of a streaming list.
func (e event) initialEnd(b bookmark) bool {
	return e.Type == watch.Bookmark && b.Annotations[metav1.InitialEventsAnnotationKey] == "true"
}

func (s source) request(query map[string]string) *rest.Request {
	prefix := []string{"apis", s.resource.Group}
	if s.resource.Group == "" {
		prefix = []string{"api"}
	}
	prefix = append(prefix, s.resource.Version)
	if s.namespace != "" {
		prefix = append(prefix, "namespaces", s.namespace)
	}
	request := s.client.Get().AbsPath(append(prefix, s.resource.Resource)...).SetHeader("Accept", "application/json")
	for name, value := range query {
		request.Param(name, value)
	}
	return request
}

// open sends a request. Its body is read as it comes. A limit on time ends it with end.
func (s source) open(ctx context.Context, query map[string]string) (body io.ReadCloser, end context.CancelCauseFunc, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	slow := time.AfterFunc(firstByte, func() { cancel(fmt.Errorf("no answer in %s", firstByte)) })
	kind := inBulk
	if s.decidesRights() {
		kind = streamed
	}
	body, err = s.request(query).Stream(expecting(ctx, kind))
	slow.Stop()
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
			err = cause
		}
		cancel(nil)
		return nil, nil, err
	}
	return &closing{ctx, body, cancel}, cancel, nil
}

// closing is a body that ends its request, and says why it was ended.
type closing struct {
	ctx context.Context // that of the request
	io.ReadCloser
	end context.CancelCauseFunc
}

func (c *closing) Read(into []byte) (int, error) {
	n, err := c.ReadCloser.Read(into)
	if err != nil && !errors.Is(err, io.EOF) {
		err = cause(c.ctx, err)
	}
	return n, err
}

func (c *closing) Close() error {
	err := c.ReadCloser.Close()
	c.end(nil)
	return err
}

// decidesRights reports whether the objects decide what readers see.
func (s source) decidesRights() bool { return streams.DecidesRights(s.resource) }

// takeList waits until the member may send one more list.
func (s source) takeList(ctx context.Context) (leave func(), err error) {
	list, err := s.limiter.lists.take(ctx, s.resource.Group, nil)
	if err != nil {
		return nil, err
	}
	return list.leave, nil
}

// beginList waits until the member may send one more streaming list. The list has to end in time.
func (s source) beginList(ctx context.Context) (within context.Context, listed func(), err error) {
	if s.follows != nil { // the list does not stand still while it waits for others
		s.follows.count(1)
		defer s.follows.count(-1)
	}
	leave, err := s.takeList(ctx)
	if err != nil {
		return nil, nil, err
	}
	within, end := context.WithCancelCause(ctx)
	late := time.AfterFunc(s.limiter.listTime, func() { end(s.limiter.listTooLong()) })
	return within, func() {
		late.Stop()
		leave()
	}, nil
}

// page reads a page of a list, and calls a function for each of its objects as it comes. It returns how many there were.
func (s source) page(ctx context.Context, token string, each func(item) error) (next, resourceVersion string, count int, err error) {
	if len(s.namespaces) > 0 {
		return s.pageOfNamespaces(ctx, token, each)
	}
	leave, err := s.takeList(ctx)
	if err != nil {
		return "", "", 0, err
	}
	defer leave()
	query := map[string]string{"limit": strconv.Itoa(pageSize)}
	if token != "" {
		query["continue"] = token
	}
	body, end, err := s.open(ctx, query)
	if err != nil {
		return "", "", 0, err
	}
	defer body.Close() //nolint:errcheck // it was read
	items := newItems(ctx, s.limiter, body, end)
	items.decides, items.group, items.rate = s.decidesRights(), s.resource.Group, s.limiter.listRate
	defer items.over()
	items.begin(0)
	var metadata metav1.ListMeta
	var failed error
	err = items.object(func(name string) error {
		switch name {
		case "metadata":
			return items.next(func(i item) error {
				defer i.done()
				return json.Unmarshal(i.text, &metadata)
			})
		case "items":
			return items.array(func() error {
				count++
				return items.next(func(i item) error {
					failed = each(i)
					return failed
				})
			})
		}
		return items.skip()
	})
	switch {
	case failed != nil:
		err = failed
	case err != nil && !isLimit(err):
		err = fmt.Errorf("the member answers a list with something else: %w", err)
	}
	return metadata.Continue, metadata.ResourceVersion, count, err
}

// watch calls opened when the member has taken the watch, and then each for the events after a resourceVersion, until the watch ends. With
// initial, it begins with a streaming list.
func (s source) watch(ctx context.Context, resourceVersion string, initial bool, opened func(), each func(event) error) error {
	w, err := s.beginWatch(ctx, resourceVersion, initial)
	if err != nil {
		return err
	}
	defer w.end()
	opened()
	for {
		if err := w.pass(each); err != nil {
			return whyEnded(err)
		}
	}
}

// watching is a watch that is open. A thousand of them wait for most of the time, so what begins one is not on their stacks.
type watching struct {
	*items
	body io.Closer
	// listed ends the list that a watch begins with.
	listed func()
}

func (s source) beginWatch(ctx context.Context, resourceVersion string, initial bool) (w *watching, err error) {
	w = &watching{listed: func() {}}
	if initial {
		if ctx, w.listed, err = s.beginList(ctx); err != nil {
			return nil, err
		}
	}
	body, end, err := s.openWatch(ctx, resourceVersion, initial)
	if err != nil {
		w.listed()
		return nil, err
	}
	w.body, w.items = body, newItems(ctx, s.limiter, body, end)
	w.quiet, w.follows, w.decides, w.group = !initial, s.follows, s.decidesRights(), s.resource.Group
	if initial {
		w.rate = s.limiter.listRate
	}
	w.begin(0)
	w.setBusy(true)
	return w, nil
}

func (w *watching) end() {
	w.over()
	w.body.Close() //nolint:errcheck // it ends here
	w.listed()
}

// openWatch sends the request for a watch.
func (s source) openWatch(ctx context.Context, resourceVersion string, initial bool) (io.ReadCloser, context.CancelCauseFunc, error) {
	seconds := int64((watchTime + rand.N(watchTime)).Seconds())
	query := map[string]string{"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": strconv.FormatInt(seconds, 10)}
	if initial {
		query["sendInitialEvents"] = "true"
		query["resourceVersionMatch"] = string(metav1.ResourceVersionMatchNotOlderThan)
	} else {
		query["resourceVersion"] = resourceVersion
	}
	body, end, err := s.open(ctx, query)
	if errors.Is(err, errEncoding) { // a list may be compressed
		err = fmt.Errorf("%w: %w", errNoEvents, err)
	}
	return body, end, err
}

// taken is an error of what was to be done with an event.
type taken struct{ error }

// pass reads an event and passes it on.
func (w *watching) pass(each func(event) error) error {
	return w.next(func(i item) error {
		e := event{item: i, syncedAt: w.syncedAt, quiet: func() {
			w.quiet, w.rate = true, w.limiter.rate
			w.listed()
		}}
		err := e.decode()
		if err == nil {
			err = each(e)
		}
		if err != nil {
			i.done()
			return taken{err}
		}
		return nil
	})
}

// whyEnded returns what is wrong with a watch that has ended.
func whyEnded(err error) error {
	if failed := (taken{}); errors.As(err, &failed) {
		return failed.error
	}
	switch {
	case isLimit(err):
		return err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil
	case errors.As(err, new(*jsontext.SyntacticError)):
		return fmt.Errorf("%w: %w", errNoEvents, err)
	}
	return fmt.Errorf("watch: %w", err)
}

// decode reads the text of an event.
func (e *event) decode() error {
	if err := json.Unmarshal(e.text, e, asSent); err != nil {
		return fmt.Errorf("%w: %w", errNoEvents, err)
	}
	if e.Type == watch.Error {
		return statusError(e.Object)
	}
	return nil
}

func statusError(object []byte) error {
	if len(object) > failureSize {
		return limited("object-size", "", "the error that ends a watch has more than %d bytes", failureSize)
	}
	status, is := statusOf(object)
	if !is {
		return errors.New("the member ends a watch with something that is no Status")
	}
	return &apierrors.StatusError{ErrStatus: *status}
}

// expired reports whether the member has forgotten a resourceVersion or a token.
func expired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }
