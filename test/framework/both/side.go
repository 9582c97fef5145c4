// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package both

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework"
)

// User returns the client configuration of a user of a cluster.
type User func(*framework.Cluster) (*rest.Config, error)

// Admin is a user with all rights. Anonymous has no credentials.
var (
	Admin     User = func(c *framework.Cluster) (*rest.Config, error) { return c.Admin(), nil }
	Anonymous User = func(c *framework.Cluster) (*rest.Config, error) { return c.Anonymous(), nil }
)

// Certificate is a user in groups with a client certificate.
func Certificate(name string, groups ...string) User {
	return func(c *framework.Cluster) (*rest.Config, error) { return c.UserConfig(name, groups...) }
}

// Token is a user with a bearer token.
func Token(token string) User {
	return func(c *framework.Cluster) (*rest.Config, error) {
		config := c.Anonymous()
		config.BearerToken = token
		return config, nil
	}
}

// Password is a user with a name and a password.
func Password(name, password string) User {
	return func(c *framework.Cluster) (*rest.Config, error) {
		config := c.Anonymous()
		config.Username, config.Password = name, password
		return config, nil
	}
}

// Side is one of the two clusters.
type Side struct {
	*framework.Cluster

	mu      sync.Mutex
	users   map[string]User
	clients map[string]*http.Client
}

// NewSide returns a side with the users of a test, by name.
func NewSide(cluster *framework.Cluster, users map[string]User) *Side {
	s := &Side{Cluster: cluster, users: map[string]User{}, clients: map[string]*http.Client{}}
	for name, user := range users {
		s.Know(name, user)
	}
	return s
}

// Know adds a user.
func (s *Side) Know(name string, user User) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users[name] = user
}

// Config returns the configuration of a user's clients.
func (s *Side) Config(user string) (*rest.Config, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.config(user)
}

func (s *Side) config(user string) (*rest.Config, error) {
	known := s.users[user]
	if known == nil {
		return nil, fmt.Errorf("no user is called %q", user)
	}
	config, err := known(s.Cluster)
	if err != nil {
		return nil, fmt.Errorf("cannot make a client for %s: %w", user, err)
	}
	return config, nil
}

// Client returns the HTTP client of a user, always the same one. It returns answers unchanged: it neither decompresses them nor follows
// redirects.
func (s *Side) Client(user string) (*http.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if client := s.clients[user]; client != nil {
		return client, nil
	}
	config, err := s.config(user)
	if err != nil {
		return nil, err
	}
	config.DisableCompression = true
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("cannot make a client for %s: %w", user, err)
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	s.clients[user] = client
	return client, nil
}

// Request is a request of a user. Header and Body may be nil.
type Request struct {
	User, Method, Path string
	Header             http.Header
	Body               []byte
}

// Answer is the answer of a side to a request.
type Answer struct {
	Code   int
	Header http.Header
	Body   []byte
}

// Open sends a request. The caller closes the body of the response.
func (s *Side) Open(ctx context.Context, r Request) (*http.Response, error) {
	client, err := s.Client(r.User)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, r.Method, s.URL+r.Path, bytes.NewReader(r.Body))
	if err != nil {
		return nil, err
	}
	if r.Header != nil {
		request.Header = r.Header.Clone()
	}
	return client.Do(request)
}

// Send sends a request and reads the whole answer.
func (s *Side) Send(ctx context.Context, r Request) (Answer, error) {
	response, err := s.Open(ctx, r)
	if err != nil {
		return Answer{}, err
	}
	defer response.Body.Close() //nolint:errcheck // what counts is what was read
	body, err := io.ReadAll(response.Body)
	return Answer{Code: response.StatusCode, Header: response.Header, Body: body}, err
}
