// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package searchclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Paths of search.
const (
	root        = "/apis/clusterpedia.io/v1beta1"
	Resources   = root + "/resources"
	Collections = root + "/collectionresources/any"
)

const (
	// reviews asks who the caller is.
	reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
	// maxAnswer bounds an answer: search answers with pages of 16 MiB, and one object.
	maxAnswer = 32 << 20
	// answerTimeout bounds the time of one.
	answerTimeout = 20 * time.Second
)

// posts are the only paths to which the console sends a POST. They ask who the caller is, and what a user may do, and change nothing.
var posts = []string{
	reviews, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "/apis/authorization.k8s.io/v1/subjectaccessreviews",
}

// TableType is the media type of a table.
const TableType = "application/json;as=Table;v=v1;g=meta.k8s.io"

// Client reads search.
type Client struct {
	http *http.Client
	base *url.URL
	kinds
}

// New returns a client of the cluster that search is part of.
func New(config *rest.Config) (*Client, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = "tripod-console"
	config.WarningHandler = rest.NoWarnings{}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	own := strings.TrimSuffix(base.Path, "/")
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &reading{next, own} })
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	client.Timeout = answerTimeout
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c := &Client{http: client, base: base}
	c.kinds.ask = config
	c.kinds.with = client
	return c, nil
}

// Kubernetes returns a client of the API server with the same transport, which changes nothing.
func (c *Client) Kubernetes() (kubernetes.Interface, error) {
	return kubernetes.NewForConfigAndClient(c.ask, c.with)
}

// Server is the address of the API server.
func (c *Client) Server() string { return c.base.String() }

// Answer is what search has answered.
type Answer struct {
	Body []byte
	// Warnings are those of search to the reader.
	Warnings []string
	// Staleness has the age of the copies of clusters, if it was asked for.
	Staleness string
}

// Error is an answer of the API server that is no success, or what a transport returns in place of one.
type Error struct {
	Code    int
	Message string
}

func (e *Error) Error() string { return e.Message }

// Get reads a path of the API server.
func (c *Client) Get(ctx context.Context, path string, values url.Values, accept string) (*Answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL(path, values), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", accept)
	return c.do(req)
}

// URL returns that of a path, whose segments are escaped.
func (c *Client) URL(path string, values url.Values) string {
	to := strings.TrimSuffix(c.base.String(), "/") + path
	if len(values) > 0 {
		to += "?" + values.Encode()
	}
	return to
}

// Stream is Get for an answer that the caller reads itself, and closes.
func (c *Client) Stream(ctx context.Context, path string, values url.Values, accept string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL(path, values), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", accept)
	response, err := c.send(req)
	if err != nil {
		return nil, err
	}
	return response.Body, nil
}

// send returns an answer that is a success. The caller closes it.
func (c *Client) send(req *http.Request) (*http.Response, error) {
	response, err := c.http.Do(req)
	if err != nil {
		if answered := (*Error)(nil); errors.As(err, &answered) {
			return nil, answered // the request was not sent
		}
		if failed := (*url.Error)(nil); errors.As(err, &failed) {
			err = failed.Err // the address is known
		}
		return nil, fmt.Errorf("%s does not answer: %w", c.Server(), err)
	}
	if response.StatusCode/100 == 2 {
		return response, nil
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	return nil, &Error{response.StatusCode, message(response.StatusCode, body)}
}

func (c *Client) do(req *http.Request) (*Answer, error) {
	response, err := c.send(req)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	answer := &Answer{Body: body, Staleness: response.Header.Get("Search-Staleness")}
	warnings, _ := utilnet.ParseWarningHeaders(response.Header["Warning"])
	for _, w := range warnings {
		answer.Warnings = append(answer.Warnings, w.Text)
	}
	return answer, nil
}

// message returns that of a Status, or the begin of another answer.
func message(code int, body []byte) string {
	var status metav1.Status
	if json.Unmarshal(body, &status) == nil && status.Message != "" {
		return status.Message
	}
	text := strings.TrimSpace(string(body[:min(len(body), 200)]))
	return strings.TrimSuffix(fmt.Sprintf("the API server answers %d: %s", code, text), ": ")
}

// Reader returns the name of the caller.
func (c *Client) Reader(ctx context.Context) (string, error) {
	const review = `{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL(reviews, nil), bytes.NewReader([]byte(review)))
	if err != nil {
		return "", err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Content-Type", "application/json")
	answer, err := c.do(req)
	if err != nil {
		return "", err
	}
	var who authenticationv1.SelfSubjectReview
	err = json.Unmarshal(answer.Body, &who)
	return who.Status.UserInfo.Username, err
}

// reading is a transport that changes nothing.
type reading struct {
	next http.RoundTripper
	// root is before all paths of the API server.
	root string
}

func (r *reading) RoundTrip(req *http.Request) (*http.Response, error) {
	reads := req.Method == http.MethodGet || req.Method == http.MethodHead
	path, below := strings.CutPrefix(req.URL.Path, r.root)
	parameters := req.URL.Query()
	parameters.Del("timeout") // which client-go sends
	asks := req.Method == http.MethodPost && below && slices.Contains(posts, path) && len(parameters) == 0
	if !reads && !asks {
		return nil, fmt.Errorf("the console changes nothing, so it sends no %s to %s", req.Method, req.URL.Path)
	}
	response, err := r.next.RoundTrip(req)
	if err == nil {
		response.Body = &boundedBody{response.Body, maxAnswer}
	}
	return response, err
}

// boundedBody ends an answer that is too long with an error.
type boundedBody struct {
	io.ReadCloser
	left int
}

func (b *boundedBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if b.left -= n; b.left < 0 {
		return 0, fmt.Errorf("the answer has more than %d MiB", maxAnswer>>20)
	}
	return n, err
}
