// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"
	"k8s.io/kubernetes/pkg/serviceaccount"

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

// newService returns a service that knows the tokens, and no objects.
func newService(t *testing.T, known tokens) *Service {
	t.Helper()
	dependencies, err := Follow(informers.NewSharedInformerFactory(fake.NewClientset(), 0), &kubeoptions.ServiceAccountAuthenticationOptions{})
	require.NoError(t, err)
	dependencies.synced = nil
	s := NewService(Config{
		Authenticator: union.New(bearertoken.New(known), websocket.NewProtocolAuthenticator(known)),
		APIAudiences:  authenticator.Audiences{"api"},
		Dependencies:  dependencies,
	})
	if s.check() == nil {
		t.Fatal("it answers before anybody knows whether it is ready")
	}
	s.SetReady(nil)
	return s
}

func authenticate(t *testing.T, s *Service, token string, audiences ...string) *identityv1.AuthenticateResponse {
	t.Helper()
	answer, err := s.Authenticate(t.Context(), &identityv1.AuthenticateRequest{Token: token, Audiences: audiences})
	require.NoError(t, err)
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
		// kube-apiserver drops what comes with a token that is not good.
		if annotated, warned := len(answer.GetAuditAnnotations()) == 1, len(answer.GetWarnings()) == 1; annotated != (test.want != "") || warned != annotated {
			t.Errorf("%q: annotations %v, warnings %v", test.token, answer.GetAuditAnnotations(), answer.GetWarnings())
		}
		if strings.Contains(answer.GetError(), "rpc error") {
			t.Errorf("%q: error is %q", test.token, answer.GetError())
		}
		if test.want == "" && (answer.GetFreshFor() != nil || answer.GetDependencies() != nil) {
			t.Errorf("%q is not good but may be kept: %v", test.token, answer)
		}
	}
	answer := authenticate(t, s, "good")
	want := &identityv1.User{Name: "jane", Uid: "1", Groups: []string{"g"}, Extra: []*identityv1.Extra{{Key: "K", Values: []string{""}}}}
	if diff := cmp.Diff(want, answer.GetUser(), protocmp.Transform()); diff != "" {
		t.Errorf("user (-want +got):\n%s", diff)
	}
	if answer.GetRun() == "" || answer.GetRun() != s.config.Dependencies.invalidations.run {
		t.Errorf("run is %q", answer.GetRun())
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
		t.Errorf("the sequence is %d, want the one from before the question", got)
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
	s.SetReady([]string{"poststarthook/rbac/bootstrap-roles"})
	expect("good", codes.Unavailable)
	s.SetReady([]string{"etcd"})
	expect("good", codes.Unavailable) // it was not ready before
	s.SetReady(nil)
	expect("good", codes.OK)
	s.Stop()
	expect("good", codes.Unavailable)
}

func TestNobodyIsRefusedBecauseTheReplicaStops(t *testing.T) {
	s := newService(t, nil)
	s.config.Authenticator = authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		s.Stop()
		return nil, false, errors.New("the API cannot be asked for the service account")
	})
	answer, err := s.Authenticate(t.Context(), &identityv1.AuthenticateRequest{Token: "t"})
	if status.Code(err) != codes.Unavailable {
		t.Errorf("got %v, %v", answer, err)
	}
}

func TestAQuestionThatIsGivenUpIsNoAnswer(t *testing.T) {
	s := newService(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	s.config.Authenticator = authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		cancel()
		return nil, false, ctx.Err()
	})
	answer, err := s.Authenticate(ctx, &identityv1.AuthenticateRequest{Token: "t"})
	if status.Code(err) != codes.Canceled {
		t.Errorf("got %v, %v", answer, err)
	}
}

func TestReasonsCanBeSent(t *testing.T) {
	s := newService(t, nil)
	s.config.Authenticator = authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return nil, false, errors.New("no issuer \xff")
	})
	if _, err := proto.Marshal(authenticate(t, s, "t")); err != nil {
		t.Error(err)
	}
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

func TestWatchersReceiveEverythingInOrder(t *testing.T) {
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
		if waited := time.Since(began); waited != heartbeatInterval {
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
			t.Errorf("a watcher that missed invalidations gets %v", err)
		}

		s.SetReady(nil)
		unlucky := &stream{ctx: t.Context(), sent: make(chan *identityv1.WatchResponse)}
		go func() { ended <- s.Watch(nil, unlucky) }()
		<-unlucky.sent
		s.SetReady([]string{"ping", "etcd"})
		if err := <-ended; status.Code(err) != codes.Unavailable || !strings.HasSuffix(err.Error(), "not ready: ping, etcd") {
			t.Errorf("the stream of a replica that lost its etcd ends with %v", err)
		}
		s.SetReady(nil)

		last := &stream{ctx: t.Context(), sent: make(chan *identityv1.WatchResponse)}
		go func() { ended <- s.Watch(nil, last) }()
		<-last.sent
		s.Stop()
		if err := <-ended; status.Code(err) != codes.Unavailable {
			t.Errorf("the stream of a replica that stops ends with %v", err)
		}
	})
}

// TestAStalledEtcdEndsNothing has etcd stay silent, as on a machine with too much to do.
func TestAStalledEtcdEndsNothing(t *testing.T) {
	for _, test := range []struct {
		name string
		ends func(*Service)
		// want is the code with which the question and the stream end. OK means that the stream goes on.
		want codes.Code
	}{
		{name: "etcd answers again", ends: func(s *Service) { s.SetReady(nil) }, want: codes.OK},
		{name: "another check fails", ends: func(s *Service) { s.SetReady([]string{"etcd", "ping"}) }, want: codes.Unavailable},
		{name: "the replica stops", ends: (*Service).Stop, want: codes.Unavailable},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newService(t, tokens{"good": &user.DefaultInfo{Name: "jane"}})
				watcher := &stream{ctx: t.Context(), sent: make(chan *identityv1.WatchResponse, 10)}
				ended := make(chan error, 1)
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				watcher.ctx = ctx
				go func() { ended <- s.Watch(nil, watcher) }()
				synctest.Wait()
				<-watcher.sent
				s.SetReady([]string{"etcd"})
				time.Sleep(5 * time.Second)
				s.SetReady([]string{"etcd", "etcd-readiness"})
				var answered error
				asked := make(chan struct{})
				go func() {
					defer close(asked)
					_, answered = s.Authenticate(t.Context(), &identityv1.AuthenticateRequest{Token: "good"})
				}()
				time.Sleep(time.Minute)
				select {
				case <-asked:
					t.Fatal("a question does not wait")
				case err := <-ended:
					t.Fatalf("the stream ends: %v", err)
				case <-watcher.sent:
					t.Fatal("a replica that may miss changes says that it knows all")
				default:
				}
				impatient, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := s.Authenticate(impatient, &identityv1.AuthenticateRequest{Token: "good"})
				require.Equal(t, codes.DeadlineExceeded, status.Code(err), "a question that waits: %v", err)
				require.Equal(t, codes.Unavailable, status.Code(s.Watch(nil, nil)), "a new stream")

				test.ends(s)
				<-asked
				require.Equal(t, test.want, status.Code(answered), "the question: %v", answered)
				if test.want == codes.OK {
					<-watcher.sent // the next heartbeat
					return
				}
				require.Equal(t, test.want, status.Code(<-ended))
			})
		})
	}
}

// TestAReplicaWhoseChecksHangSaysNothing has no check end: until it fails, it is unknown what the replica misses.
func TestAReplicaWhoseChecksHangSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, nil)
		ctx, leave := context.WithCancel(t.Context())
		watcher := &stream{ctx: ctx, sent: make(chan *identityv1.WatchResponse, 10)}
		go func() { _ = s.Watch(nil, watcher) }()
		time.Sleep(10*time.Second + time.Millisecond)
		require.Len(t, watcher.sent, 2, "messages: the first one, and one heartbeat within 2 s")
		s.config.Dependencies.invalidations.add(&identityv1.Dependency{Id: "news"}, "")
		synctest.Wait()
		require.Len(t, watcher.sent, 3, "messages: news are sent at once")
		leave()
	})
}

func TestWhichRevocationsAreSent(t *testing.T) {
	share := time.Second
	noKeys, err := serviceaccount.StaticPublicKeysGetter(nil)
	require.NoError(t, err)
	for _, test := range []struct {
		name     string
		token    tokenFacts
		webhook  *time.Duration
		external serviceaccount.PublicKeysGetter
		want     bool
	}{
		{name: "of a service account", token: tokenFacts{kind: serviceAccountToken, complete: true}, want: true},
		{name: "of a service account that the informer does not know", token: tokenFacts{kind: serviceAccountToken}},
		{name: "of a service account, by an external signer", token: tokenFacts{kind: serviceAccountToken, complete: true}, external: noKeys},
		{name: "bootstrap", token: tokenFacts{kind: bootstrapToken, complete: true}, webhook: &share, want: true},
		{name: "of a file", token: tokenFacts{kind: otherToken, complete: true}, want: true},
		{name: "of a file or a webhook", token: tokenFacts{kind: otherToken, complete: true}, webhook: &share},
		{name: "of an issuer", token: tokenFacts{kind: otherToken, complete: true, issuer: "https://issuer"}},
	} {
		s := newService(t, nil)
		s.config.WebhookFreshness = test.webhook
		s.config.Dependencies.tokens.ExternalPublicKeysGetter = test.external
		if got := s.reportsEnd(test.token); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}
