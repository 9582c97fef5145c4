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

	"github.com/tripod-k8s/tripod/internal/hop/link"
)

// How long the aggregator may take to begin to answer. Whoever waits for that holds up somebody else's request.
const (
	documentPatience = 10 * time.Second
	resourcePatience = 30 * time.Second
)

func patience(req *http.Request) time.Duration {
	if is := parse(req.URL.Path); is.document || !is.versioned {
		return documentPatience
	}
	return resourcePatience
}

// sendPatiently sends a request that must be answered in time. What follows the header of the answer, as the events of a
// watch, may take longer. If it was not answered, or nobody is there, the answer is 503.
func sendPatiently(to http.RoundTripper, req *http.Request, patience time.Duration) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	timer := time.AfterFunc(patience, func() { cancel(link.ErrSilent) })
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

// cancelling ends a request when its answer was read.
type cancelling struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (c *cancelling) Close() error {
	defer c.cancel(nil)
	return c.ReadCloser.Close()
}

// unavailable returns the answer in place of the aggregator's.
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
