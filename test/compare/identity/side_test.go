// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework"
)

// side is one of the clusters that are compared.
type side struct {
	cluster *framework.Cluster
}

// prepare makes the fixtures and returns when they are in force.
func (s *side) prepare(ctx context.Context) error {
	if err := s.cluster.Create(ctx, fixtures); err != nil {
		return err
	}
	for path := range servers {
		err := framework.Poll(ctx, "the policy is in force for "+path, func(ctx context.Context) error {
			who, err := s.whoAt(ctx, s.cluster.Admin(), path)
			if err == nil && !strings.HasPrefix(who, "name ") {
				err = errors.New(who)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// servers has the paths of objects of core and of extensions, with their manifests.
var servers = map[string]string{
	configMapsPath: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"who"}}`,
	widgetsPath:    `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"who"}}`,
}

// answer is what a server answers to a request.
type answer struct {
	Code   int
	Header http.Header
	Body   []byte
}

func (a answer) String() string {
	return fmt.Sprintf("%d, Retry-After %q: %.300s", a.Code, a.Header.Get("Retry-After"), bytes.TrimSpace(a.Body))
}

// send sends a request as the user of config.
func send(ctx context.Context, config *rest.Config, method, path string, header http.Header, body string) (answer, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return answer{}, err
	}
	return sendWith(ctx, client, method, config.Host+path, header, body)
}

func sendWith(ctx context.Context, client *http.Client, method, url string, header http.Header, body string) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if header != nil {
		request.Header = header.Clone()
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer closing(response.Body)
	if response.StatusCode == http.StatusSwitchingProtocols {
		return answer{Code: response.StatusCode, Header: response.Header}, nil
	}
	data, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, data}, err
}

// whoAmI returns the answer to a SelfSubjectReview.
func whoAmI(ctx context.Context, config *rest.Config) (authenticationv1.UserInfo, answer, error) {
	var review authenticationv1.SelfSubjectReview
	a, err := send(ctx, config, http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews", nil,
		`{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`)
	if err == nil && a.Code == http.StatusCreated {
		err = json.Unmarshal(a.Body, &review)
	}
	return review.Status.UserInfo, a, err
}

// whoAt returns the user that admission sees for the objects of a path, or how the request failed before. It sends a dry run, so that nothing is
// created before the policy is in force.
func (s *side) whoAt(ctx context.Context, config *rest.Config, path string) (string, error) {
	a, err := send(ctx, config, http.MethodPost, path+"?dryRun=All", nil, servers[path])
	if err != nil {
		return "", err
	}
	var status metav1.Status
	if err := json.Unmarshal(a.Body, &status); err != nil {
		return "", fmt.Errorf("%v: %w", a, err)
	}
	_, who, denied := strings.Cut(status.Message, "denied request: ")
	if !denied {
		if a.Code < http.StatusBadRequest {
			return "", fmt.Errorf("the policy did not see it: %v", a)
		}
		return fmt.Sprintf("%d %s", a.Code, status.Message), nil
	}
	// CEL has the keys in no order.
	before, extra, _ := strings.Cut(who, "; extra")
	keys := strings.Split(extra, " <")[1:]
	slices.Sort(keys)
	return strings.Join(append([]string{before}, keys...), "; "), nil
}

// volatile is what differs between any two clusters: UIDs, fingerprints, and the time of a question.
var volatile = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|X509SHA256=[0-9a-f]{64}|current time .* m=\S+`)

// normal returns text without what differs between any two clusters.
func normal(text string) string { return volatile.ReplaceAllString(text, "VOLATILE") }

// tokenClient returns a client that has nothing but a token.
func tokenClient(t testing.TB, s *side, token string) *http.Client {
	t.Helper()
	client, err := rest.HTTPClientFor(withToken(s.cluster, token))
	require.NoError(t, err)
	return client
}
