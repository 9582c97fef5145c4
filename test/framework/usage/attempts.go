// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// attempts records each request that failed. client-go repeats a request up to ten times if the answer has a Retry-After, as Tripod's 503
// has, so its callers would not notice.
type attempts struct {
	next   http.RoundTripper
	failed func(of string, err error)
}

func (a *attempts) RoundTrip(req *http.Request) (*http.Response, error) {
	answer, err := a.next.RoundTrip(req)
	of := req.Method + " " + req.URL.RequestURI()
	switch {
	case req.Context().Err() != nil: // the client has ended
	case err != nil:
		a.failed(of, err)
	case answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode >= http.StatusInternalServerError:
		a.failed(of, reason(answer))
	}
	return answer, err
}

// maxReason is how much of an answer is read for the reason.
const maxReason = 64 << 10

// reason returns the status of an answer with the message in its body, which stays readable.
func reason(answer *http.Response) error {
	body := answer.Body
	text, err := io.ReadAll(io.LimitReader(body, maxReason))
	var rest io.Reader = body
	if err != nil {
		rest = failing{err}
	}
	answer.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(text), rest), body}
	decoded, _, err := scheme.Codecs.UniversalDeserializer().Decode(text, nil, nil)
	if status, ok := decoded.(*metav1.Status); ok && err == nil && status.Message != "" {
		return fmt.Errorf("%s: %s", answer.Status, status.Message)
	}
	return errors.New(answer.Status)
}

// failing is the rest of a body that cannot be read.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// WrappedRoundTripper is for client-go, which looks for a transport that it can close.
func (a *attempts) WrappedRoundTripper() http.RoundTripper { return a.next }
