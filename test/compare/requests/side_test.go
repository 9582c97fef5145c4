// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework"
)

// The users that send requests.
const (
	admin          = "admin"
	anonymous      = "anonymous"
	nobody         = "a user without rights"
	reader         = "a user who may read configmaps"
	impersonator   = "a user who may impersonate"
	node           = "a node"
	invalidToken   = "an invalid token"
	emptyToken     = "an empty token"
	basicAuth      = "a password"
	serviceAccount = "a service account"
	bootstrapToken = "a bootstrap token"
	http1          = "an administrator with HTTP/1.1"
)

// bootstrapTokenValue is the token of the secret in bootstrapTokenSecret.
const bootstrapTokenValue = "abcdef.0123456789abcdef"

// side is one of the clusters that are compared.
type side struct {
	cluster *framework.Cluster
	// uids are the names of the FlowSchemas and PriorityLevelConfigurations by UID.
	uids map[string]string

	mu      sync.Mutex
	clients map[string]*http.Client
	tokens  map[string]string
}

func newSide(cluster *framework.Cluster) *side {
	return &side{cluster: cluster, uids: map[string]string{}, clients: map[string]*http.Client{}, tokens: map[string]string{
		invalidToken:   "nonsense",
		emptyToken:     "",
		bootstrapToken: bootstrapTokenValue,
	}}
}

// client returns the HTTP client of a user.
func (s *side) client(user string) (*http.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if client, found := s.clients[user]; found {
		return client, nil
	}
	config, err := s.config(user)
	if err != nil {
		return nil, err
	}
	config.DisableCompression = true // else the transport hides Content-Encoding
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("cannot make a client for %s: %w", user, err)
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	s.clients[user] = client
	return client, nil
}

func (s *side) config(user string) (*rest.Config, error) {
	config := s.cluster.Anonymous()
	switch user {
	case admin:
		return s.cluster.Admin(), nil
	case http1:
		config = s.cluster.Admin()
		config.NextProtos = []string{"http/1.1"}
	case nobody:
		return s.cluster.UserConfig("nobody", "developers")
	case reader:
		return s.cluster.UserConfig("reader", "readers")
	case impersonator:
		return s.cluster.UserConfig("impersonator")
	case node:
		return s.cluster.UserConfig("system:node:node-1", "system:nodes")
	case anonymous:
	case emptyToken:
		config.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				r = r.Clone(r.Context())
				r.Header.Set("Authorization", "Bearer ")
				return next.RoundTrip(r)
			})
		}
	case basicAuth:
		config.Username, config.Password = "admin", "admin"
	default:
		token, found := s.tokens[user]
		if !found {
			return nil, fmt.Errorf("there is no user %q", user)
		}
		config.BearerToken = token
	}
	return config, nil
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// read gets an object as the administrator.
func (s *side) read(ctx context.Context, path string, into any) error {
	a, err := get(path).do(ctx, s)
	if err != nil {
		return err
	}
	if a.status != http.StatusOK {
		return fmt.Errorf("%s: GET %s: %d: %s", s.cluster.Name, path, a.status, strings.TrimSpace(string(a.body)))
	}
	if err := json.Unmarshal(a.body, into); err != nil {
		return fmt.Errorf("%s: GET %s: %w", s.cluster.Name, path, err)
	}
	return nil
}

// learnToken has a token issued for the service account that tests use.
func (s *side) learnToken(ctx context.Context) error {
	a, err := post("/api/v1/namespaces/"+namespace+"/serviceaccounts/robot/token",
		`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}`).do(ctx, s)
	if err != nil {
		return err
	}
	var issued struct{ Status struct{ Token string } }
	if err := json.Unmarshal(a.body, &issued); err != nil || issued.Status.Token == "" {
		return fmt.Errorf("%s issued no token: %d: %s", s.cluster.Name, a.status, a.body)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens[serviceAccount] = issued.Status.Token
	return nil
}

// learnUIDs reads which FlowSchemas and PriorityLevelConfigurations the UIDs in headers mean.
func (s *side) learnUIDs(ctx context.Context) error {
	for _, resource := range []string{"flowschemas", "prioritylevelconfigurations"} {
		var list struct {
			Items []struct{ Metadata struct{ Name, UID string } }
		}
		if err := s.read(ctx, "/apis/flowcontrol.apiserver.k8s.io/v1/"+resource, &list); err != nil {
			return err
		}
		for _, item := range list.Items {
			s.uids[item.Metadata.UID] = item.Metadata.Name
		}
	}
	return nil
}
