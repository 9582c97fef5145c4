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

	"gopkg.in/go-jose/go-jose.v2"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/keyutil"

	"github.com/tripod-k8s/tripod/test/framework"
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
	cluster *framework.Cluster
	// logs are the files of audit events, by who writes them. They are complete after stop.
	logs map[string]string
	stop func() error

	tokens  map[string]string
	clients map[string]*http.Client
}

func newSide(cluster *framework.Cluster, logs map[string]string, stop func() error) *side {
	return &side{cluster: cluster, logs: logs, stop: stop, tokens: map[string]string{badToken: "nonsense"}, clients: map[string]*http.Client{}}
}

// prepare makes the fixtures and the tokens, and returns when all is in force.
func (s *side) prepare(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(s.cluster.Admin())
	if err != nil {
		return err
	}
	if err := kubelet.AddNode(ctx, client, "node-1"); err != nil {
		return err
	}
	if err := s.cluster.Create(ctx, fixtures); err != nil {
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
		if err := s.until(ctx, request{user: wait.user, method: http.MethodGet, path: wait.path}, func(a answer) bool {
			return strings.Contains(string(a.body), wait.want)
		}); err != nil {
			return err
		}
	}
	for _, r := range []request{create("configmaps", "polled"), create("widgets", "polled")} {
		r.path += "?dryRun=All"
		if err := s.until(ctx, r, func(a answer) bool { return strings.Contains(a.header.Get("Warning"), "noted") }); err != nil {
			return err
		}
	}
	return nil
}

// until repeats a request that is not audited for the test until its answer is as wanted.
func (s *side) until(ctx context.Context, r request, wanted func(answer) bool) error {
	return framework.Poll(ctx, fmt.Sprintf("%s answers %s", s.cluster.Name, r.path), func(ctx context.Context) error {
		a, err := s.send(ctx, r, "")
		if err == nil && !wanted(a) {
			err = fmt.Errorf("it answers %d %q: %.500s", a.code, a.header.Get("Warning"), a.body)
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
		s.tokens[user] = issued.Status.Token
	}
	// A token that its pod should have replaced, and one as there were before tokens had an end.
	now := time.Now()
	s.tokens[staleRobot], err = s.sign(map[string]any{
		"iss": issuer, "aud": []string{issuer}, "sub": "system:serviceaccount:test:robot",
		"iat": now.Add(-2 * time.Hour).Unix(), "nbf": now.Add(-2 * time.Hour).Unix(), "exp": now.Add(time.Hour).Unix(),
		"kubernetes.io": map[string]any{
			"namespace": "test", "serviceaccount": map[string]any{"name": "robot", "uid": account.UID}, "warnafter": now.Add(-time.Hour).Unix(),
		},
	})
	if err != nil {
		return err
	}
	s.tokens[legacyRobot], err = s.sign(map[string]any{
		"iss": "kubernetes/serviceaccount", "sub": "system:serviceaccount:test:robot",
		"kubernetes.io/serviceaccount/namespace": "test", "kubernetes.io/serviceaccount/secret.name": "legacy",
		"kubernetes.io/serviceaccount/service-account.name": "robot", "kubernetes.io/serviceaccount/service-account.uid": account.UID,
	})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Secrets("test").Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "legacy", Annotations: map[string]string{corev1.ServiceAccountNameKey: "robot"}},
		Type:       corev1.SecretTypeServiceAccountToken,
		StringData: map[string]string{corev1.ServiceAccountTokenKey: s.tokens[legacyRobot]},
	}, metav1.CreateOptions{})
	return err
}

// issuer is that of the clusters' service accounts.
const issuer = "https://kubernetes.default.svc.cluster.local"

// sign returns a JWT of the cluster.
func (s *side) sign(claims map[string]any) (string, error) {
	key, err := keyutil.PrivateKeyFromFile(filepath.Join(s.cluster.PKI, "sa.key"))
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

func (s *side) config(user string) (*rest.Config, error) {
	config := s.cluster.Anonymous()
	switch user {
	case admin:
		config = s.cluster.Admin()
	case alice:
		return s.cluster.UserConfig("alice", "painters", "poets")
	case director:
		return s.cluster.UserConfig("director")
	case constrained:
		return s.cluster.UserConfig("constrained")
	case behindProxy:
		config.CertFile, config.KeyFile = filepath.Join(s.cluster.PKI, "front-proxy-client.crt"), filepath.Join(s.cluster.PKI, "front-proxy-client.key")
	case basicAuth:
		config.Username, config.Password = "admin", "admin"
	case anonymous, emptyBearer:
	default:
		token, found := s.tokens[user]
		if !found {
			return nil, fmt.Errorf("there is no user %q", user)
		}
		config.BearerToken = token
	}
	return config, nil
}

func (s *side) client(user string) (*http.Client, error) {
	if client, found := s.clients[user]; found {
		return client, nil
	}
	config, err := s.config(user)
	if err != nil {
		return nil, err
	}
	s.clients[user], err = rest.HTTPClientFor(config)
	return s.clients[user], err
}

// answer is what a cluster said to a request.
type answer struct {
	code   int
	header http.Header
	body   []byte
}

// send sends a request. Its audit events have the ID.
func (s *side) send(ctx context.Context, r request, id string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	if r.exec {
		return answer{}, s.execute(ctx, r, id)
	}
	client, err := s.client(r.user)
	if err != nil {
		return answer{}, err
	}
	req, err := http.NewRequestWithContext(ctx, r.method, s.cluster.URL+r.path, strings.NewReader(r.body))
	if err != nil {
		return answer{}, err
	}
	req.Header = r.headers(id)
	response, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	a := answer{code: response.StatusCode, header: response.Header}
	if r.leaves {
		_, err = io.ReadFull(response.Body, make([]byte, 1)) // the first event has begun
		return a, err
	}
	a.body, err = io.ReadAll(response.Body)
	return a, err
}

// execute runs a command in a container and waits for its end.
func (s *side) execute(ctx context.Context, r request, id string) error {
	config, err := s.config(r.user)
	if err != nil {
		return err
	}
	config.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
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

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
