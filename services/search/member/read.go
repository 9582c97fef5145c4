// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

const (
	// pageSize is how many objects a page of a list has.
	pageSize = 500
	// watchTime is the least time after which a watch is to end. Its server would choose 30 to 60 minutes.
	watchTime = 5 * time.Minute
	// firstByte is how long a member may take to begin an answer.
	firstByte = time.Minute
)

// source reads a resource of a member as JSON, without decoding objects.
type source struct {
	client   rest.Interface
	resource schema.GroupVersionResource
}

// event is an event of a watch.
type event struct {
	Type   watch.EventType `json:"type"`
	Object jsontext.Value  `json:"object"`
}

// initial reports whether the event ends the initial events of a streaming list.
func (e event) initialEnd(m metadata) bool {
	return e.Type == watch.Bookmark && m.Annotations[metav1.InitialEventsAnnotationKey] == "true"
}

func (s source) request(query map[string]string) *rest.Request {
	prefix := []string{"apis", s.resource.Group}
	if s.resource.Group == "" {
		prefix = []string{"api"}
	}
	request := s.client.Get().AbsPath(append(prefix, s.resource.Version, s.resource.Resource)...).SetHeader("Accept", "application/json")
	for name, value := range query {
		request.Param(name, value)
	}
	return request
}

// open sends a request. Its body is read as it comes.
func (s source) open(ctx context.Context, query map[string]string) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	slow := time.AfterFunc(firstByte, func() { cancel(fmt.Errorf("no answer in %s", firstByte)) })
	body, err := s.request(query).Stream(ctx)
	slow.Stop()
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
			err = cause
		}
		cancel(nil)
		return nil, err
	}
	return &closing{body, func() { cancel(nil) }}, nil
}

// closing is a body that ends its request.
type closing struct {
	io.ReadCloser
	end func()
}

func (c *closing) Close() error {
	err := c.ReadCloser.Close()
	c.end()
	return err
}

// page reads a page of a list, and calls item for each of its objects.
func (s source) page(ctx context.Context, token string, item func(jsontext.Value) error) (next, resourceVersion string, err error) {
	query := map[string]string{"limit": strconv.Itoa(pageSize)}
	if token != "" {
		query["continue"] = token
	}
	body, err := s.open(ctx, query)
	if err != nil {
		return "", "", err
	}
	defer body.Close() //nolint:errcheck // it was read
	var list struct {
		Metadata metav1.ListMeta  `json:"metadata"`
		Items    []jsontext.Value `json:"items"`
	}
	if err := json.UnmarshalRead(body, &list, asSent); err != nil {
		return "", "", fmt.Errorf("the member answers a list with something else: %w", err)
	}
	for _, object := range list.Items {
		if err := item(object); err != nil {
			return "", "", err
		}
	}
	return list.Metadata.Continue, list.Metadata.ResourceVersion, nil
}

// watch calls opened when the member has taken the watch, and then each for the events after a resourceVersion, until the watch ends. With initial, it begins
// with a streaming list.
func (s source) watch(ctx context.Context, resourceVersion string, initial bool, opened func(), each func(event) error) error {
	seconds := int64((watchTime + rand.N(watchTime)).Seconds())
	query := map[string]string{"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": strconv.FormatInt(seconds, 10)}
	if initial {
		query["sendInitialEvents"] = "true"
		query["resourceVersionMatch"] = string(metav1.ResourceVersionMatchNotOlderThan)
	} else {
		query["resourceVersion"] = resourceVersion
	}
	body, err := s.open(ctx, query)
	if err != nil {
		return err
	}
	defer body.Close() //nolint:errcheck // it ends here
	opened()
	for events := jsontext.NewDecoder(body, asSent); ; {
		var e event
		switch err := json.UnmarshalDecode(events, &e); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return fmt.Errorf("watch: %w", err)
		}
		if e.Type == watch.Error {
			return statusError(e.Object)
		}
		if err := each(e); err != nil {
			return err
		}
	}
}

func statusError(object []byte) error {
	var status metav1.Status
	if err := json.Unmarshal(object, &status); err != nil {
		return fmt.Errorf("the member ends a watch with something that is no Status: %w", err)
	}
	return &apierrors.StatusError{ErrStatus: status}
}

// expired reports whether the member has forgotten a resourceVersion or a token.
func expired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// noStreamingList reports whether a member refuses a streaming list because it does not know it.
func noStreamingList(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code == http.StatusUnprocessableEntity || code == http.StatusBadRequest
}
