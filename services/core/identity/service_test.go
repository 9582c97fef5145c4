// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"gopkg.in/go-jose/go-jose.v2"
	"gopkg.in/go-jose/go-jose.v2/jwt"

	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/warning"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

// tokens are good for their users, and for no audience but "api".
type tokens map[string]user.Info

func (k tokens) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	audit.AddAuditAnnotation(ctx, "example.com/seen", "yes")
	warning.AddWarning(ctx, "test", "looked at")
	audiences, _ := authenticator.AudiencesFrom(ctx)
	u, good := k[token]
	if !good {
		return nil, false, errors.New("no such token")
	}
	return &authenticator.Response{User: u, Audiences: audiences.Intersect(authenticator.Audiences{"api"})}, true, nil
}

// newService returns a service that knows the tokens and Secrets.
func newService(t *testing.T, known tokens, secrets ...*corev1.Secret) *Service {
	t.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, secret := range secrets {
		if err := indexer.Add(secret); err != nil {
			t.Fatal(err)
		}
	}
	return NewService(Config{
		Authenticator: union.New(bearertoken.New(known), websocket.NewProtocolAuthenticator(known)),
		APIAudiences:  authenticator.Audiences{"api"},
		Dependencies:  &Dependencies{invalidations: newInvalidations(), secrets: corelisters.NewSecretLister(indexer)},
	})
}

// signed returns a token with claims, by a key that nobody knows.
func signed(t *testing.T, claims map[string]any) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(claims).CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func authenticate(t *testing.T, s *Service, token string, audiences ...string) *identityv1.AuthenticateResponse {
	t.Helper()
	answer, err := s.Authenticate(t.Context(), &identityv1.AuthenticateRequest{Token: token, Audiences: audiences})
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func TestWhoseTokenItIs(t *testing.T) {
	jane := &user.DefaultInfo{Name: "jane", UID: "1", Groups: []string{"g"}, Extra: map[string][]string{"K": {""}}}
	odd := &user.DefaultInfo{Name: "odd"}
	s := newService(t, tokens{
		"good": jane, "good junk": odd, " good": odd, "ümläut\n": odd,
		"anonymous":       &user.DefaultInfo{Name: user.Anonymous},
		"unauthenticated": &user.DefaultInfo{Name: "x", Groups: []string{user.AllUnauthenticated}},
	})
	for _, test := range []struct {
		token     string
		audiences []string
		want      string
	}{
		{"good", nil, "jane"},
		{"good", []string{"api"}, "jane"},
		{"good", []string{"other", "api"}, "jane"},
		{"good", []string{"other"}, ""},
		{"good junk", nil, "odd"}, // not that of "good"
		{" good", nil, "odd"},
		{"ümläut\n", nil, "odd"},
		{"good,junk", nil, ""},
		{"bad", nil, ""},
		{"anonymous", nil, ""},
		{"unauthenticated", nil, ""},
	} {
		answer := authenticate(t, s, test.token, test.audiences...)
		if got := answer.GetUser().GetName(); got != test.want || (answer.GetUser() == nil) != (test.want == "") {
			t.Errorf("%q for %q is of %q, want %q", test.token, test.audiences, got, test.want)
		}
		if (answer.GetError() == "") != (test.want != "") || strings.Contains(answer.GetError(), test.token) {
			t.Errorf("%q: error is %q", test.token, answer.GetError())
		}
		if answer.GetAuditAnnotations()["example.com/seen"] != "yes" || len(answer.GetWarnings()) != 1 {
			t.Errorf("%q: annotations %v, warnings %v", test.token, answer.GetAuditAnnotations(), answer.GetWarnings())
		}
		if test.want == "" && (answer.GetFreshFor() != nil || answer.GetDependencies() != nil) {
			t.Errorf("%q is not good but may be kept: %v", test.token, answer)
		}
	}
	answer := authenticate(t, s, "good")
	want := &identityv1.User{Name: "jane", Uid: "1", Groups: []string{"g"}, Extra: map[string]*identityv1.ExtraValues{"K": {Values: []string{""}}}}
	if diff := cmp.Diff(want, answer.GetUser(), protocmp.Transform()); diff != "" {
		t.Errorf("user (-want +got):\n%s", diff)
	}
	if answer.GetRun() == "" || answer.GetRun() != s.config.Dependencies.invalidations.run {
		t.Errorf("run is %q", answer.GetRun())
	}
}

func TestHowLongAnAnswerHoldsAndWhatItDependsOn(t *testing.T) {
	const builder = "system:serviceaccount:shop:builder"
	account := &user.DefaultInfo{Name: builder, UID: "sa"}
	bound := func(kind string) map[string]any {
		return map[string]any{"kubernetes.io": map[string]any{"serviceaccount": map[string]any{"uid": "sa"}, kind: map[string]any{"uid": kind}}}
	}
	inAMinute, inFiveSeconds := time.Now().Add(time.Minute), time.Now().Add(5*time.Second)
	both := bound("pod")
	both["kubernetes.io"].(map[string]any)["node"] = map[string]any{"uid": "where it ran"}
	both["exp"] = inAMinute.Unix()
	legacy := func(name string) map[string]any {
		return map[string]any{"kubernetes.io/serviceaccount/namespace": "shop", "kubernetes.io/serviceaccount/secret.name": name}
	}
	secrets := []*corev1.Secret{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "known", UID: "secret"}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-abcdef"}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-ending"}, Data: map[string][]byte{"expiration": []byte(inFiveSeconds.Format(time.RFC3339))}},
	}
	share := 2 * time.Second

	for _, test := range []struct {
		name  string
		token string
		user  user.Info
		// webhook is whether there is one.
		webhook bool
		fresh   time.Duration
		ends    time.Time
		want    []string
	}{
		{name: "of a file", token: "static", user: &user.DefaultInfo{Name: "jane"}, fresh: freshness},
		{name: "of a file or a webhook", token: "static", user: &user.DefaultInfo{Name: "jane"}, webhook: true, fresh: share},
		{name: "of an issuer", token: signed(t, map[string]any{"iss": "https://issuer", "exp": inAMinute.Unix()}), user: &user.DefaultInfo{Name: "jane"},
			fresh: freshness, ends: inAMinute, want: []string{"KIND_ISSUER https://issuer"}},
		{name: "of an issuer, ending soon", token: signed(t, map[string]any{"iss": "i", "exp": inFiveSeconds.Unix()}), user: &user.DefaultInfo{Name: "jane"},
			fresh: 5 * time.Second, ends: inFiveSeconds, want: []string{"KIND_ISSUER i"}},
		{name: "bound to a pod", token: signed(t, both), user: account, webhook: true, fresh: freshness, ends: inAMinute,
			want: []string{"KIND_SERVICE_ACCOUNT sa", "KIND_POD pod"}},
		{name: "bound to a secret", token: signed(t, bound("secret")), user: account, fresh: freshness, want: []string{"KIND_SERVICE_ACCOUNT sa", "KIND_SECRET secret"}},
		{name: "bound to a node", token: signed(t, bound("node")), user: account, fresh: freshness, want: []string{"KIND_SERVICE_ACCOUNT sa", "KIND_NODE node"}},
		{name: "legacy", token: signed(t, legacy("known")), user: account, fresh: freshness, want: []string{"KIND_SERVICE_ACCOUNT sa", "KIND_SECRET secret"}},
		{name: "legacy, too new", token: signed(t, legacy("new")), user: account, fresh: 0, want: []string{"KIND_SERVICE_ACCOUNT sa"}},
		{name: "service account without a UID", token: signed(t, bound("pod")), user: &user.DefaultInfo{Name: builder}, fresh: 0,
			want: []string{"KIND_SERVICE_ACCOUNT ", "KIND_POD pod"}},
		{name: "a webhook's service account", token: "opaque", user: account, webhook: true, fresh: share},
		{name: "bootstrap", token: "abcdef.0123456789abcdef", user: &user.DefaultInfo{Name: "system:bootstrap:abcdef"}, webhook: true, fresh: freshness,
			want: []string{"KIND_BOOTSTRAP_TOKEN abcdef"}},
		{name: "bootstrap, ending", token: "ending.0123456789abcdef", user: &user.DefaultInfo{Name: "system:bootstrap:ending"}, fresh: 5 * time.Second, ends: inFiveSeconds,
			want: []string{"KIND_BOOTSTRAP_TOKEN ending"}},
		{name: "bootstrap, too new", token: "newnew.0123456789abcdef", user: &user.DefaultInfo{Name: "system:bootstrap:newnew"}, fresh: 0,
			want: []string{"KIND_BOOTSTRAP_TOKEN newnew"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newService(t, tokens{test.token: test.user}, secrets...)
			if test.webhook {
				s.config.WebhookFreshness = &share
			}
			answer := authenticate(t, s, test.token)
			if off := test.fresh - answer.GetFreshFor().AsDuration(); off < 0 || off > 2*time.Second || test.fresh == 0 && off != 0 {
				t.Errorf("fresh for %s, want %s", answer.GetFreshFor().AsDuration(), test.fresh)
			}
			if test.ends.IsZero() != (answer.GetValidFor() == nil) {
				t.Errorf("valid for %s", answer.GetValidFor())
			} else if off := time.Until(test.ends) - answer.GetValidFor().AsDuration(); !test.ends.IsZero() && (off < -time.Second || off > time.Second) {
				t.Errorf("valid for %s, want %s", answer.GetValidFor().AsDuration(), time.Until(test.ends))
			}
			var got []string
			for _, d := range answer.GetDependencies() {
				got = append(got, d.GetKind().String()+" "+d.GetId())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("dependencies (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheSequenceIsReadBeforeTheTokenIsLookedAt(t *testing.T) {
	s := newService(t, tokens{})
	log := s.config.Dependencies.invalidations
	s.config.Authenticator = websocket.NewProtocolAuthenticator(authenticator.TokenFunc(func(context.Context, string) (*authenticator.Response, bool, error) {
		log.add(&identityv1.Dependency{Id: "during"}, "")
		return &authenticator.Response{User: &user.DefaultInfo{Name: "jane"}}, true, nil
	}))
	log.add(&identityv1.Dependency{Id: "before"}, "")
	if got := authenticate(t, s, "t").GetSequence(); got != 1 {
		t.Errorf("sequence is %d, want that of what was before", got)
	}
}

func TestQuestionsThatCannotBeAnswered(t *testing.T) {
	s := newService(t, tokens{"good": &user.DefaultInfo{Name: "jane"}})
	expect := func(token string, want codes.Code) {
		t.Helper()
		if _, err := s.Authenticate(t.Context(), &identityv1.AuthenticateRequest{Token: token}); status.Code(err) != want {
			t.Errorf("error is %v, want %s", err, want)
		}
	}
	expect("", codes.InvalidArgument)
	expect("good", codes.OK)
	synced := false
	s.config.Dependencies.synced = []cache.InformerSynced{func() bool { return synced }}
	expect("good", codes.Unavailable)
	if err := s.Watch(nil, nil); status.Code(err) != codes.Unavailable {
		t.Errorf("error of Watch is %v", err)
	}
	synced = true
	expect("good", codes.OK)
	s.Stop()
	expect("good", codes.Unavailable)
}

// stream is the server's end of a stream.
type stream struct {
	grpc.ServerStreamingServer[identityv1.WatchResponse]
	ctx  context.Context
	sent chan *identityv1.WatchResponse
}

func (s *stream) Context() context.Context { return s.ctx }

func (s *stream) Send(m *identityv1.WatchResponse) error {
	select {
	case s.sent <- m:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

func TestWatchersAreToldEverythingInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, nil)
		log := s.config.Dependencies.invalidations
		add := func(ids ...string) {
			for _, id := range ids {
				log.add(&identityv1.Dependency{Kind: identityv1.Dependency_KIND_POD, Id: id}, "")
			}
		}
		add("before")
		watcher := &stream{ctx: t.Context(), sent: make(chan *identityv1.WatchResponse)}
		ended := make(chan error, 1)
		go func() { ended <- s.Watch(nil, watcher) }()
		expect := func(sequence uint64, want ...string) {
			t.Helper()
			message := <-watcher.sent
			var got []string
			for _, i := range message.GetInvalidations() {
				got = append(got, i.GetDependency().GetId())
			}
			if diff := cmp.Diff(want, got); diff != "" || message.GetSequence() != sequence || message.GetRun() != log.run {
				t.Errorf("message of run %s at %d (-want +got):\n%s", message.GetRun(), message.GetSequence(), diff)
			}
		}
		expect(1)
		add("a")
		expect(2, "a")
		began := time.Now()
		expect(2)
		if waited := time.Since(began); waited != signOfLife {
			t.Errorf("a sign of life after %s", waited)
		}
		add("b")
		synctest.Wait() // the message with b waits to be read
		add("c", "d")
		expect(3, "b")
		expect(5, "c", "d")

		add("e")
		synctest.Wait()
		for range keptInvalidations + 1 {
			add("many")
		}
		expect(6, "e")
		if err := <-ended; status.Code(err) != codes.ResourceExhausted {
			t.Errorf("a watcher that missed something is told %v", err)
		}

		last := &stream{ctx: t.Context(), sent: make(chan *identityv1.WatchResponse)}
		go func() { ended <- s.Watch(nil, last) }()
		<-last.sent
		s.Stop()
		if err := <-ended; status.Code(err) != codes.Unavailable {
			t.Errorf("the stream of a replica that stops ends with %v", err)
		}
	})
}
