// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tripod-k8s/tripod/base/hop/link"
)

// Timeouts until the header of an answer. Admission waits for the answer, and a client waits for admission.
const (
	documentTimeout = 10 * time.Second
	resourceTimeout = 30 * time.Second
)

// headerTimeout returns how long the aggregator may take until it sends the header of its answer.
func headerTimeout(req *http.Request) time.Duration {
	if is := parse(req.URL.Path); is.document || !is.versioned {
		return documentTimeout
	}
	return resourceTimeout
}

// sendWithin sends a request and waits at most a timeout for the header of the answer. The body may take longer, as the events of a
// watch do. If no header arrives in time, or no server can be reached, it returns 503.
func sendWithin(timeout time.Duration, to http.RoundTripper, req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	timer := time.AfterFunc(timeout, func() { cancel(link.ErrSilent) })
	response, err := to.RoundTrip(req.WithContext(ctx))
	timer.Stop()
	if err == nil {
		response.Body = &cancelling{ReadCloser: response.Body, cancel: cancel}
		return response, nil
	}
	silent := errors.Is(context.Cause(ctx), link.ErrSilent)
	cancel(nil)
	if silent {
		return unavailable(req, errors.New("the aggregator does not answer")), nil
	}
	if link.IsUnreachable(err) && req.Context().Err() == nil {
		return unavailable(req, err), nil
	}
	return nil, err
}

// cancelling ends the request when its body is closed.
type cancelling struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (c *cancelling) Close() error {
	defer c.cancel(nil)
	return c.ReadCloser.Close()
}

// unavailable returns a 503 Status in place of an answer of the aggregator.
func unavailable(req *http.Request, cause error) *http.Response {
	status := apierrors.NewServiceUnavailable(cause.Error()).Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	body, _ := json.Marshal(status) // it always can be
	return &http.Response{
		Status:        http.StatusText(http.StatusServiceUnavailable),
		StatusCode:    http.StatusServiceUnavailable,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        http.Header{"Content-Type": {runtime.ContentTypeJSON}},
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		Request:       req,
	}
}
