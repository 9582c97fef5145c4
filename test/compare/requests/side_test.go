// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/base/hop/roundtrip"
	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/both"
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

// users are those that need nothing from the cluster.
var users = map[string]both.User{
	admin:        both.Admin,
	anonymous:    both.Anonymous,
	nobody:       both.Certificate("nobody", "developers"),
	reader:       both.Certificate("reader", "readers"),
	impersonator: both.Certificate("impersonator"),
	node:         both.Certificate("system:node:node-1", "system:nodes"),
	basicAuth:    both.Password("admin", "admin"),
	invalidToken: both.Token("nonsense"), bootstrapToken: both.Token(bootstrapTokenValue),
	http1: func(c *framework.Cluster) (*rest.Config, error) {
		config := c.Admin()
		config.NextProtos = []string{"http/1.1"}
		return config, nil
	},
	emptyToken: func(c *framework.Cluster) (*rest.Config, error) {
		config := c.Anonymous()
		config.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
			return roundtrip.Func(func(r *http.Request) (*http.Response, error) {
				r = r.Clone(r.Context())
				r.Header.Set("Authorization", "Bearer ")
				return next.RoundTrip(r)
			})
		}
		return config, nil
	},
}

// side is one of the clusters that are compared.
type side struct {
	*both.Side
	// uids are the names of the FlowSchemas and PriorityLevelConfigurations by UID.
	uids map[string]string
}

func newSide(cluster *framework.Cluster) *side {
	return &side{Side: both.NewSide(cluster, users), uids: map[string]string{}}
}

// read gets an object as the administrator.
func (s *side) read(ctx context.Context, path string, into any) error {
	a, err := get(path).do(ctx, s)
	if err != nil {
		return err
	}
	if a.status != http.StatusOK {
		return fmt.Errorf("%s: GET %s: %d: %s", s.Name, path, a.status, strings.TrimSpace(string(a.body)))
	}
	if err := json.Unmarshal(a.body, into); err != nil {
		return fmt.Errorf("%s: GET %s: %w", s.Name, path, err)
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
		return fmt.Errorf("%s issued no token: %d: %s", s.Name, a.status, a.body)
	}
	s.Know(serviceAccount, both.Token(issued.Status.Token))
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
