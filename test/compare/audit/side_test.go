// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/keyutil"

	"github.com/tripod-k8s/tripod/base/hop/roundtrip"
	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/both"
)

// The users that send requests.
const (
	admin        = "an administrator"
	alice        = "a user without rights"
	director     = "a user who may impersonate"
	constrained  = "a user who may impersonate some, for some requests"
	behindProxy  = "a user whom an authenticating proxy names"
	anonymous    = "nobody"
	badToken     = "a bad token"
	robot        = "a service account"
	robotOnNode  = "a service account on a node"
	staleRobot   = "a service account with an old token"
	legacyRobot  = "a service account with the token of a secret"
	basicAuth    = "a password"
	emptyBearer  = "a header without a token"
	auditHeader  = "Audit-ID"
	testsPrefix  = "test-"
	requestLimit = 20 * time.Second
)

// side is one of the clusters that are compared.
type side struct {
	*both.Side
	// logs are the files of audit events, by who writes them. They are complete after stop.
	logs map[string]string
	stop func() error
}

func newSide(cluster *framework.Cluster, logs map[string]string, stop func() error) *side {
	return &side{logs: logs, stop: stop, Side: both.NewSide(cluster, map[string]both.User{
		admin:       both.Admin,
		alice:       both.Certificate("alice", "painters", "poets"),
		director:    both.Certificate("director"),
		constrained: both.Certificate("constrained"),
		anonymous:   both.Anonymous,
		emptyBearer: both.Anonymous,
		badToken:    both.Token("nonsense"),
		basicAuth:   both.Password("admin", "admin"),
		behindProxy: func(c *framework.Cluster) (*rest.Config, error) {
			config := c.Anonymous()
			config.CertFile, config.KeyFile = filepath.Join(c.PKI, "front-proxy-client.crt"), filepath.Join(c.PKI, "front-proxy-client.key")
			return config, nil
		},
	})}
}

// prepare makes the fixtures and the tokens, and returns when all is in force.
func (s *side) prepare(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(s.Admin())
	if err != nil {
		return err
	}
	if err := kubelet.AddNode(ctx, client, "node-1"); err != nil {
		return err
	}
	if err := s.Create(ctx, fixtures); err != nil {
		return err
	}
	if err := s.makeTokens(ctx, client); err != nil {
		return err
	}
	for _, wait := range []struct{ user, path, want string }{
		{robot, "/api/v1/namespaces/test/configmaps", `"items"`},
		{robot, "/apis/example.com/v1/namespaces/test/widgets", `"items"`},
		{robot, "/apis/apiregistration.k8s.io/v1/apiservices/v1.example.com", `"Available","status":"True"`},
		{robot, "/apis", "example.com"},
	} {
		if err := s.until(ctx, request{user: wait.user, method: http.MethodGet, path: wait.path}, func(a both.Answer) bool {
			return strings.Contains(string(a.Body), wait.want)
		}); err != nil {
			return err
		}
	}
	for _, r := range []request{create("configmaps", "polled"), create("widgets", "polled")} {
		r.path += "?dryRun=All"
		if err := s.until(ctx, r, func(a both.Answer) bool { return strings.Contains(a.Header.Get("Warning"), "noted") }); err != nil {
			return err
		}
	}
	return nil
}

// until repeats a request that is not audited for the test until its answer is as expected.
func (s *side) until(ctx context.Context, r request, wanted func(both.Answer) bool) error {
	return framework.Poll(ctx, fmt.Sprintf("%s answers %s", s.Name, r.path), func(ctx context.Context) error {
		a, err := s.send(ctx, r, "")
		if err == nil && !wanted(a) {
			err = fmt.Errorf("it answers %d %q: %.500s", a.Code, a.Header.Get("Warning"), a.Body)
		}
		return err
	})
}

func (s *side) makeTokens(ctx context.Context, client kubernetes.Interface) error {
	account, err := client.CoreV1().ServiceAccounts("test").Get(ctx, "robot", metav1.GetOptions{})
	if err != nil {
		return err
	}
	for user, bound := range map[string]*authenticationv1.BoundObjectReference{
		robot: nil, robotOnNode: {APIVersion: "v1", Kind: "Pod", Name: "pod"},
	} {
		issued, err := client.CoreV1().ServiceAccounts("test").CreateToken(ctx, "robot", &authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: bound},
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		s.Know(user, both.Token(issued.Status.Token))
	}
	// A token that its pod should have replaced, and one as there were before tokens had an end.
	now := time.Now()
	stale, err := s.sign(map[string]any{
		"iss": issuer, "aud": []string{issuer}, "sub": "system:serviceaccount:test:robot",
		"iat": now.Add(-2 * time.Hour).Unix(), "nbf": now.Add(-2 * time.Hour).Unix(), "exp": now.Add(time.Hour).Unix(),
		"kubernetes.io": map[string]any{
			"namespace": "test", "serviceaccount": map[string]any{"name": "robot", "uid": account.UID}, "warnafter": now.Add(-time.Hour).Unix(),
		},
	})
	if err != nil {
		return err
	}
	s.Know(staleRobot, both.Token(stale))
	legacy, err := s.sign(map[string]any{
		"iss": "kubernetes/serviceaccount", "sub": "system:serviceaccount:test:robot",
		"kubernetes.io/serviceaccount/namespace": "test", "kubernetes.io/serviceaccount/secret.name": "legacy",
		"kubernetes.io/serviceaccount/service-account.name": "robot", "kubernetes.io/serviceaccount/service-account.uid": account.UID,
	})
	if err != nil {
		return err
	}
	s.Know(legacyRobot, both.Token(legacy))
	_, err = client.CoreV1().Secrets("test").Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "legacy", Annotations: map[string]string{corev1.ServiceAccountNameKey: "robot"}},
		Type:       corev1.SecretTypeServiceAccountToken,
		StringData: map[string]string{corev1.ServiceAccountTokenKey: legacy},
	}, metav1.CreateOptions{})
	return err
}

// issuer is that of the clusters' service accounts.
const issuer = "https://kubernetes.default.svc.cluster.local"

// sign returns a JWT of the cluster.
func (s *side) sign(claims map[string]any) (string, error) {
	key, err := keyutil.PrivateKeyFromFile(filepath.Join(s.PKI, "sa.key"))
	if err != nil {
		return "", err
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: key}, nil)
	if err != nil {
		return "", err
	}
	signed, err := signer.Sign([]byte(marshal(claims)))
	if err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}

// send sends a request. Its audit events have the ID.
func (s *side) send(ctx context.Context, r request, id string) (both.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	if r.exec {
		return both.Answer{}, s.execute(ctx, r, id)
	}
	sent := both.Request{User: r.user, Method: r.method, Path: r.path, Header: r.headers(id), Body: []byte(r.body)}
	if !r.leaves {
		return s.Send(ctx, sent)
	}
	response, err := s.Open(ctx, sent)
	if err != nil {
		return both.Answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	_, err = io.ReadFull(response.Body, make([]byte, 1)) // the first event has begun
	return both.Answer{Code: response.StatusCode, Header: response.Header}, err
}

// execute runs a command in a container and waits for its end.
func (s *side) execute(ctx context.Context, r request, id string) error {
	config, err := s.Config(r.user)
	if err != nil {
		return err
	}
	config.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
		return roundtrip.Func(func(req *http.Request) (*http.Response, error) {
			req = req.Clone(req.Context())
			for name, values := range r.headers(id) {
				req.Header[name] = values
			}
			return next.RoundTrip(req)
		})
	}
	base, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	target := base.CoreV1().RESTClient().Post().AbsPath(strings.Split(r.path, "?")[0]).URL()
	_, target.RawQuery, _ = strings.Cut(r.path, "?")
	executor, err := remotecommand.NewSPDYExecutor(config, r.method, target)
	if err != nil {
		return err
	}
	var stdout bytes.Buffer
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: strings.NewReader("hello"), Stdout: &stdout})
	if r.fails {
		if err == nil {
			return fmt.Errorf("%s runs a command", r.user)
		}
		return nil
	}
	if err == nil && !strings.HasSuffix(stdout.String(), "hello") {
		err = fmt.Errorf("the command wrote %q", stdout.String())
	}
	return err
}
