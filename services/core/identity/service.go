// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/warning"

	"github.com/tripod-k8s/tripod/internal/hop/envelope"
	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

// freshness is how long an answer may be used again. It is the life of answers in kube-apiserver's own cache of good tokens
// (TokenSuccessCacheTTL in pkg/kubeapiserver/options), so that what no invalidation tells of, such as an issuer's new keys, is noticed as
// soon as there.
const freshness = 10 * time.Second

// signOfLife is how often a watcher is told something when nothing changes.
const signOfLife = time.Second

// Config is what the service works with.
type Config struct {
	// Authenticator is that of requests to core. Its tokens must not be cached, because a cache outlives an invalidation.
	Authenticator authenticator.Request
	// APIAudiences are the audiences of the API server.
	APIAudiences authenticator.Audiences
	// Dependencies knows what tokens depend on.
	Dependencies *Dependencies
	// WebhookFreshness is how long an answer that may be a webhook's may be used again, instead of freshness. It is nil where
	// there is no webhook.
	WebhookFreshness *time.Duration
}

// Service implements tripod.identity.v1.Identity.
type Service struct {
	identityv1.UnimplementedIdentityServer
	config  Config
	stopped chan struct{}
	stop    func()

	mu sync.Mutex
	// failing has the checks of readiness that fail. It is not empty before SetReady.
	failing []string
	// unready is closed while any fails.
	unready chan struct{}
}

// NewService returns the service of this run of core.
func NewService(config Config) *Service {
	registerMetrics()
	stopped := make(chan struct{})
	return &Service{
		config: config, stopped: stopped, stop: sync.OnceFunc(func() { close(stopped) }),
		failing: []string{"not checked yet"}, unready: closed,
	}
}

// Register makes a gRPC server serve it.
func (s *Service) Register(r grpc.ServiceRegistrar) { identityv1.RegisterIdentityServer(r, s) }

// Stop ends all streams and answers no more questions, so that callers follow another replica.
func (s *Service) Stop() { s.stop() }

// SetReady says which checks of readiness fail. While any does, etcd among them, this replica may not hear of changes. So it ends all streams and
// answers no questions, and callers follow another replica. A new service is not ready.
func (s *Service) SetReady(failing []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := len(s.failing) == 0
	s.failing = failing
	switch is := len(failing) == 0; {
	case is && !was:
		s.unready = make(chan struct{})
	case was && !is:
		close(s.unready)
	}
}

// readiness returns which checks fail, and what is closed while any does.
func (s *Service) readiness() (failing []string, unready <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failing, s.unready
}

var (
	errStops      = status.Error(codes.Unavailable, "this replica of core stops")
	errWasUnready = status.Error(codes.Unavailable, "this replica of core was not ready for a moment")
)

// check returns an error when questions cannot be answered.
func (s *Service) check() error {
	select {
	case <-s.stopped:
		return errStops
	default:
	}
	if failing, _ := s.readiness(); len(failing) > 0 {
		return status.Errorf(codes.Unavailable, "this replica of core is not ready: %s", strings.Join(failing, ", "))
	}
	if !s.config.Dependencies.Synced() {
		return status.Error(codes.Unavailable, "this replica of core does not know yet what tokens depend on")
	}
	return nil
}

// Authenticate implements identityv1.IdentityServer.
func (s *Service) Authenticate(ctx context.Context, req *identityv1.AuthenticateRequest) (*identityv1.AuthenticateResponse, error) {
	if req.GetToken() == "" {
		return nil, status.Error(codes.InvalidArgument, "no token is given")
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	began := time.Now()
	// Before the token is looked at: see the package comment.
	sequence := s.config.Dependencies.invalidations.last()
	warnings := &envelope.Warnings{}
	ctx = warning.WithWarningRecorder(audit.WithAuditContext(ctx), warnings)
	response, err := s.authenticate(ctx, req.GetToken(), req.GetAudiences())
	if ctx.Err() != nil {
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	answer := &identityv1.AuthenticateResponse{Run: s.config.Dependencies.invalidations.run, Sequence: sequence}
	if response == nil {
		if err := s.check(); err != nil {
			// What the authenticator works with may have stopped already.
			return nil, err
		}
		answer.Error = reason(err)
		observe(resultBad, began)
		return answer, nil
	}
	answer.User = envelope.FromUser(response.User)
	answer.Audiences = response.Audiences
	// Only of good tokens: the cache of kube-apiserver's authenticators drops those of others.
	answer.AuditAnnotations = audit.AuditContextFrom(ctx).GetEventAnnotations()
	answer.Warnings = warnings.Recorded()
	s.limit(answer, req.GetToken(), response.User)
	observe(resultGood, began)
	return answer, nil
}

// authenticate returns nil for a token that is not good.
func (s *Service) authenticate(ctx context.Context, token string, audiences []string) (*authenticator.Response, error) {
	wanted := authenticator.Audiences(audiences)
	if len(wanted) == 0 {
		wanted = s.config.APIAudiences
	}
	if len(wanted) > 0 {
		ctx = authenticator.WithAudiences(ctx, wanted)
	}
	response, ok, err := s.config.Authenticator.AuthenticateRequest(requestWith(ctx, token))
	switch {
	case err != nil || !ok:
		return nil, err
	case isAnonymous(response.User):
		// What the last authenticator says about requests without credentials that anybody knows.
		return nil, nil
	case !acceptable(wanted, response.Audiences, len(audiences) > 0):
		return nil, fmt.Errorf("the token is for the audiences %q, not for any of %q", response.Audiences, wanted)
	}
	return response, nil
}

// reason returns why a token is not good.
func reason(err error) string {
	if err == nil {
		return "the token is not good"
	}
	// It may quote from the token, and a message holds only UTF-8.
	return strings.ToValidUTF8(err.Error(), "\uFFFD")
}

// requestWith returns a request with nothing but a token. It is in the protocols of a WebSocket and not in an Authorization
// header, because only there it can be any string: a header is split at blanks.
func requestWith(ctx context.Context, token string) *http.Request {
	req := &http.Request{
		Method: http.MethodGet,
		URL:    &url.URL{Path: "/"},
		Header: http.Header{
			"Connection":             {"Upgrade"},
			"Upgrade":                {"websocket"},
			"Sec-Websocket-Protocol": {"base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte(token)) + ",none"},
		},
	}
	return req.WithContext(ctx)
}

func isAnonymous(u user.Info) bool {
	return u.GetName() == user.Anonymous || slices.Contains(u.GetGroups(), user.AllUnauthenticated)
}

// acceptable is the rule of kube-apiserver: a request may have a token that says nothing of audiences, a review for certain
// audiences may not.
func acceptable(wanted, got authenticator.Audiences, certain bool) bool {
	if len(wanted) == 0 || len(got) == 0 && !certain {
		return true
	}
	return len(wanted.Intersect(got)) > 0
}

// limit says how long the answer holds and what it depends on.
func (s *Service) limit(answer *identityv1.AuthenticateResponse, token string, u user.Info) {
	found := s.config.Dependencies.of(token, u)
	fresh := freshness
	if found.kind == otherToken && s.config.WebhookFreshness != nil {
		fresh = *s.config.WebhookFreshness
	}
	if found.issuer != "" && s.config.Dependencies.unsettled() {
		fresh = min(fresh, unsettledFreshness)
	}
	if !found.complete {
		fresh = 0
	}
	if !found.ends.IsZero() {
		left := max(time.Until(found.ends), 0)
		answer.ValidFor = durationpb.New(left)
		fresh = min(fresh, left)
	}
	answer.FreshFor = durationpb.New(fresh)
	answer.Dependencies = found.dependencies
	answer.RevocationIsTold = s.tellsEnd(found)
}

// tellsEnd reports whether invalidations tell of everything that may end a token before its time.
func (s *Service) tellsEnd(token found) bool {
	switch token.kind {
	case bootstrapToken:
		return token.complete
	case serviceAccountToken:
		// An external signer may withdraw a key.
		return token.complete && s.config.Dependencies.tokens.ExternalPublicKeysGetter == nil
	default:
		// A token of --token-auth-file ends with the process.
		return token.issuer == "" && s.config.WebhookFreshness == nil
	}
}

// Watch implements identityv1.IdentityServer.
func (s *Service) Watch(_ *identityv1.WatchRequest, stream grpc.ServerStreamingServer[identityv1.WatchResponse]) error {
	_, unready := s.readiness()
	if err := s.check(); err != nil {
		return err
	}
	watchers.Inc()
	defer watchers.Dec()
	log := s.config.Dependencies.invalidations
	told := log.last()
	var news []*identityv1.Invalidation
	beat := time.NewTicker(signOfLife)
	defer beat.Stop()
	for {
		if err := stream.Send(&identityv1.WatchResponse{Run: log.run, Sequence: told, Invalidations: news}); err != nil {
			return err
		}
		select {
		case <-log.after(told):
		case <-beat.C:
		case <-s.stopped:
			return errStops
		case <-unready:
			return cmp.Or(s.check(), errWasUnready)
		case <-stream.Context().Done():
			return context.Cause(stream.Context())
		}
		var complete bool
		if news, complete = log.since(told); !complete {
			slowWatchers.Inc()
			return status.Error(codes.ResourceExhausted, "invalidations come faster than they are read")
		}
		told += uint64(len(news))
	}
}
