// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tripod-k8s/tripod/test/framework"
)

// poll waits for something of one side.
func (s *side) poll(ctx context.Context, what string, condition func(context.Context) error) error {
	return framework.Poll(ctx, s.cluster.Name+": "+what, condition)
}

// ofBoth returns what a question gives for stock and for the tested cluster.
func ofBoth[T any](t testing.TB, ask func(context.Context, *side) (T, error)) (T, T) {
	t.Helper()
	ofStock, err := ask(t.Context(), stock)
	require.NoError(t, err)
	ofTested, err := ask(t.Context(), tested)
	require.NoError(t, err)
	return ofStock, ofTested
}

// same fails the test where the two do not answer the same.
func same[T any](t testing.TB, what string, ask func(context.Context, *side) (T, error)) T {
	t.Helper()
	ofStock, ofTested := ofBoth(t, ask)
	if !reflect.DeepEqual(ofStock, ofTested) {
		t.Errorf("%s differs\n  %s: %v\n  %s: %v", what, stock.cluster.Name, ofStock, tested.cluster.Name, ofTested)
	}
	return ofStock
}

// Tokens are configured on core alone. Every server has to take their owners for whom kube-apiserver takes them.
func TestTokensAreWhoseTheyAreForKubeAPIServer(t *testing.T) {
	t.Parallel()
	for _, token := range tokens {
		t.Run(token.name, func(t *testing.T) {
			t.Parallel()
			values := map[*side]string{}
			for _, s := range []*side{stock, tested} {
				value, err := token.make(t.Context(), s)
				require.NoError(t, err)
				values[s] = value
			}
			code := same(t, "the review", func(ctx context.Context, s *side) (string, error) {
				return selfReview(ctx, s, values[s])
			})
			assert.Equal(t, token.good, strings.HasPrefix(code, "201"), "stock says %s", code)
			for path := range servers {
				same(t, path, func(ctx context.Context, s *side) (string, error) {
					who, err := s.whoAt(ctx, withToken(s.cluster, values[s]), path)
					return normal(who), err
				})
			}
			same(t, apiServicesPath, func(ctx context.Context, s *side) (string, error) {
				a, err := send(ctx, withToken(s.cluster, values[s]), http.MethodGet, apiServicesPath, nil, "")
				return fmt.Sprintf("%d %s", a.Code, normal(string(a.Body))), err
			})
			if token.good {
				same(t, "kubectl auth whoami", func(ctx context.Context, s *side) (string, error) {
					return kubectlWhoAmI(ctx, s, values[s]), nil
				})
			}
			for _, audiences := range [][]string{nil, {"vault"}, {"vault", "https://kubernetes.default.svc.cluster.local"}, {"tripod-test"}} {
				same(t, fmt.Sprintf("the TokenReview for %q", audiences), func(ctx context.Context, s *side) (string, error) {
					return tokenReview(ctx, s, values[s], audiences)
				})
			}
		})
	}
}

// selfReview returns the answer to a SelfSubjectReview by the owner of a token.
func selfReview(ctx context.Context, s *side, token string) (string, error) {
	info, a, err := whoAmI(ctx, withToken(s.cluster, token))
	if err != nil {
		return "", err
	}
	if a.Code != http.StatusCreated {
		return fmt.Sprintf("%d %s", a.Code, a.Body), nil
	}
	data, err := json.Marshal(info)
	return fmt.Sprintf("%d %s", a.Code, normal(string(data))), err
}

// kubectlWhoAmI returns what kubectl prints.
func kubectlWhoAmI(ctx context.Context, s *side, token string) string {
	output, err := exec.CommandContext(ctx, environment.Binary("tripod"), "kubectl", "auth", "whoami", "-o", "yaml",
		"--kubeconfig=", "--server="+s.cluster.URL, "--certificate-authority="+s.cluster.CAFile(), "--token="+token).CombinedOutput()
	return normal(fmt.Sprint(withoutTimes(string(output)), err))
}

// withoutTimes leaves out the time at which something was created.
func withoutTimes(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if !strings.Contains(line, "creationTimestamp") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// tokenReview returns the status of a TokenReview.
func tokenReview(ctx context.Context, s *side, token string, audiences []string) (string, error) {
	client, err := kubernetes.NewForConfig(s.cluster.Admin())
	if err != nil {
		return "", err
	}
	review, err := client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: audiences},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(review.Status)
	return normal(string(data)), err
}

// The flags for an issuer exclude an AuthenticationConfiguration, which the shared clusters have.
func (f *fleet) issuersMayBeGivenByFlags(t *testing.T) {
	for _, test := range []struct {
		claims map[string]any
		want   string
	}{
		{map[string]any{"nick": "jim", "tenant": "t1", "groups": []string{"g1", "g2"}}, "name oidc:jim; uid ; groups oidc:g1,oidc:g2,system:authenticated"},
		{map[string]any{"nick": "jim", "tenant": "t1"}, "name oidc:jim; uid ; groups system:authenticated"},
		{map[string]any{"nick": "jim", "tenant": "t2"}, "401 Unauthorized"},
		{map[string]any{"nick": "jim", "tenant": "t1", "aud": "others"}, "401 Unauthorized"},
		{map[string]any{"tenant": "t1"}, "401 Unauthorized"},
	} {
		token, err := authorities.plain.token(test.claims)
		require.NoError(t, err)
		for path := range servers {
			if who, err := f.whoAt(t.Context(), withToken(f.cluster, token), path); err != nil || who != test.want {
				t.Errorf("%v at %s: %s, %v, want %s", test.claims, path, who, err, test.want)
			}
		}
	}
}

// A browser cannot set headers on a WebSocket: it sends its token as a protocol.
func TestTokensAreReadFromTheProtocolsOfWebSockets(t *testing.T) {
	t.Parallel()
	for path := range servers {
		for name, protocols := range map[string]func(token string) string{
			"one more protocol":            func(token string) string { return asProtocol(token) + ", v4.channel.k8s.io" },
			"before others":                func(token string) string { return "v5.channel.k8s.io, " + asProtocol(token) },
			"alone":                        asProtocol,
			"twice":                        func(token string) string { return asProtocol(token) + ", " + asProtocol(token) + ", v4.channel.k8s.io" },
			"followed by a blank and more": func(token string) string { return asProtocol(token+" junk") + ", v4.channel.k8s.io" },
			"after a blank":                func(token string) string { return asProtocol(" "+token) + ", v4.channel.k8s.io" },
			"with a line break":            func(token string) string { return asProtocol(token+"\n") + ", v4.channel.k8s.io" },
			"not base64":                   func(string) string { return "base64url.bearer.authorization.k8s.io.!!!, v4.channel.k8s.io" },
			"of nobody":                    func(string) string { return asProtocol("of-nobody") + ", v4.channel.k8s.io" },
			"empty":                        func(string) string { return asProtocol("") + ", v4.channel.k8s.io" },
		} {
			t.Run(path+" "+name, func(t *testing.T) {
				t.Parallel()
				same(t, "the answer", func(ctx context.Context, s *side) (string, error) {
					token, err := requested("robot", nil)(ctx, s)
					if err != nil {
						return "", err
					}
					a, err := upgrade(ctx, s, path+"?watch=1", protocols(token))
					if strings.Contains(fmt.Sprint(a.Header), asProtocol(token)) {
						t.Errorf("%s echoes the token", s.cluster.Name)
					}
					return fmt.Sprintf("%d %q %s", a.Code, a.Header.Get("Sec-WebSocket-Protocol"), normal(string(a.Body))), err
				})
			})
		}
	}
}

// Who authenticates by a header is whom kube-apiserver takes the sender for, with the warnings that it has.
func TestAuthorizationHeadersAreReadAsByKubeAPIServer(t *testing.T) {
	t.Parallel()
	for _, values := range [][]string{
		{"Bearer TOKEN"}, {"bearer TOKEN"}, {"BEARER TOKEN"}, {"Bearer  TOKEN"}, {"Bearer TOKEN "}, {"Bearer TOKEN junk"}, {"Bearer\tTOKEN"},
		{"Bearer"}, {"Bearer "}, {"BearerTOKEN"}, {"Basic YWRtaW46YWRtaW4="}, {"Bearer TOKEN,"}, {"Bearer \"TOKEN\""}, {"Bearer TOKEN", "Bearer of-nobody"},
		{"Bearer of-nobody", "Bearer TOKEN"}, {"", "Bearer TOKEN"}, {"Bearer TOKEN\u00a0"}, {""},
	} {
		for path, body := range servers {
			t.Run(fmt.Sprintf("%q for %s", values, path), func(t *testing.T) {
				t.Parallel()
				same(t, "the answer", func(ctx context.Context, s *side) (string, error) {
					token, err := requested("robot", nil)(ctx, s)
					if err != nil {
						return "", err
					}
					header := http.Header{}
					for _, value := range values {
						header.Add("Authorization", strings.ReplaceAll(value, "TOKEN", token))
					}
					a, err := send(ctx, s.cluster.Anonymous(), http.MethodPost, path, header, body)
					return fmt.Sprintf("%d %q %s", a.Code, a.Header.Values("Warning"), normal(string(a.Body))), err
				})
			})
		}
	}
}

func asProtocol(token string) string {
	return "base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte(token))
}

// upgrade asks for a WebSocket without credentials other than those among its protocols.
func upgrade(ctx context.Context, s *side, path, protocols string) (answer, error) {
	config := s.cluster.Anonymous()
	config.NextProtos = []string{"http/1.1"}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return send(ctx, config, http.MethodGet, path, http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-WebSocket-Version": {"13"}, "Sec-WebSocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="},
		"Sec-WebSocket-Protocol": {protocols}, "Origin": {"https://example.com"},
	}, "")
}
