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

	"github.com/tripod-k8s/tripod/base/hop/envelope"
	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

// freshness is how long an aggregator may cache an answer. kube-apiserver caches good tokens for the same time (TokenSuccessCacheTTL in
// pkg/kubeapiserver/options). So changes that no invalidation reports, such as new keys of an issuer, take effect as soon as there.
const freshness = 10 * time.Second

const (
	// heartbeatInterval is the time between messages to a watcher while nothing changes.
	heartbeatInterval = time.Second
	// currentFor is how long after its checks passed a replica says that it knows all changes. The checks run every second, or twice if
	// there are requests. Aggregators leave a silent replica 3 s later if another one serves, which is 5 s after its etcd fell silent.
	currentFor = 2 * time.Second
)

// Config is the configuration of a Service.
type Config struct {
	// Authenticator authenticates requests to core. It must not cache tokens: a cached token would outlive its invalidation.
	Authenticator authenticator.Request
	// APIAudiences are the audiences of the API server.
	APIAudiences authenticator.Audiences
	// Dependencies knows what tokens depend on.
	Dependencies *Dependencies
	// WebhookFreshness replaces freshness for answers that may come from the authentication webhook. It is nil without a webhook.
	WebhookFreshness *time.Duration
}

// Service implements tripod.identity.v1.Identity.
type Service struct {
	identityv1.UnimplementedIdentityServer
	config  Config
	stopped chan struct{}
	stop    func()

	mu sync.Mutex
	// failing are the names of the readiness checks that fail. It is not empty before the first SetReady.
	failing []string
	// stalled is true while only the checks of etcd fail, in a replica that was ready before.
	stalled bool
	// passed is when all checks passed last.
	passed time.Time
	// unready is closed while a check fails and the replica is not stalled.
	unready chan struct{}
	// resumed is closed when the replica is not stalled any more. It is nil while it is not stalled.
	resumed chan struct{}
}

// NewService returns a service that is not ready yet.
func NewService(config Config) *Service {
	registerMetrics()
	stopped := make(chan struct{})
	return &Service{
		config: config, stopped: stopped, stop: sync.OnceFunc(func() { close(stopped) }),
		failing: []string{"not checked yet"}, unready: closed,
	}
}

// Register registers the service with a gRPC server.
func (s *Service) Register(r grpc.ServiceRegistrar) { identityv1.RegisterIdentityServer(r, s) }

// Stop ends all streams, and makes later calls fail, so that aggregators follow another replica.
func (s *Service) Stop() { s.stop() }

// SetReady sets the readiness checks that fail. While a check fails, this replica may miss changes. So the service ends all streams and
// makes calls fail, and aggregators follow another replica.
//
// If only etcd does not answer, etcd or this process may just be busy, and the other replicas may be no better. Then streams go on
// without heartbeats, and calls wait: each aggregator leaves a silent replica as soon as another one serves.
func (s *Service) SetReady(failing []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := len(s.failing) == 0 || s.stalled
	stalls := was && len(failing) > 0 && !slices.ContainsFunc(failing, func(name string) bool { return !isOfEtcd(name) })
	is := len(failing) == 0 || stalls
	switch {
	case is && !was:
		s.unready = make(chan struct{})
	case was && !is:
		close(s.unready)
	}
	switch {
	case stalls && !s.stalled:
		s.resumed = make(chan struct{})
		stalled.Set(1)
	case s.stalled && !stalls:
		close(s.resumed)
		s.resumed = nil
		stalled.Set(0)
	}
	if len(failing) == 0 {
		s.passed = time.Now()
	}
	s.failing, s.stalled = failing, stalls
}

// isOfEtcd reports whether a check asks an etcd: "etcd", "etcd-readiness", "etcd-override-0" and others
// (k8s.io/apiserver/pkg/server/options).
func isOfEtcd(check string) bool { return check == "etcd" || strings.HasPrefix(check, "etcd-") }

// isCurrent reports whether changes have certainly reached this replica lately.
func (s *Service) isCurrent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.failing) == 0 && time.Since(s.passed) < currentFor
}

// await returns an error if the service cannot answer. It waits while the replica is stalled.
func (s *Service) await(ctx context.Context) error {
	s.mu.Lock()
	resumed := s.resumed
	s.mu.Unlock()
	if resumed != nil {
		select {
		case <-resumed:
		case <-s.stopped:
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
	return s.check()
}

// readiness returns the checks that fail, and a channel that is closed when a check fails.
func (s *Service) readiness() (failing []string, unready <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failing, s.unready
}

var (
	errStops      = status.Error(codes.Unavailable, "this replica of core stops")
	errWasUnready = status.Error(codes.Unavailable, "this replica of core was not ready for a moment")
)

// check returns an error while the service cannot answer.
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
		return status.Error(codes.Unavailable, "this replica of core has not yet received the objects that tokens depend on")
	}
	return nil
}

// Authenticate implements identityv1.IdentityServer.
func (s *Service) Authenticate(ctx context.Context, req *identityv1.AuthenticateRequest) (*identityv1.AuthenticateResponse, error) {
	if req.GetToken() == "" {
		return nil, status.Error(codes.InvalidArgument, "no token is given")
	}
	if err := s.await(ctx); err != nil {
		return nil, err
	}
	began := time.Now()
	// The sequence number must be from before the check of the token: see the package comment.
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
			return nil, err // the authenticator may have failed because core stops
		}
		answer.Error = reason(err)
		observe(resultBad, began)
		return answer, nil
	}
	answer.User = envelope.FromUser(response.User)
	answer.Audiences = response.Audiences
	// Bad tokens have no annotations: kube-apiserver's authenticators drop them.
	answer.AuditAnnotations = audit.AuditContextFrom(ctx).GetEventAnnotations()
	answer.Warnings = warnings.Recorded()
	s.setValidity(answer, req.GetToken(), response.User)
	observe(resultGood, began)
	return answer, nil
}

// authenticate returns nil for a bad token.
func (s *Service) authenticate(ctx context.Context, token string, audiences []string) (*authenticator.Response, error) {
	wanted := authenticator.Audiences(audiences)
	if len(wanted) == 0 {
		wanted = s.config.APIAudiences
	}
	if len(wanted) > 0 {
		ctx = authenticator.WithAudiences(ctx, wanted)
	}
	response, ok, err := s.config.Authenticator.AuthenticateRequest(requestWithToken(ctx, token))
	switch {
	case err != nil || !ok:
		return nil, err
	case isAnonymous(response.User):
		// No authenticator accepted the token, so the last one took the request for anonymous.
		return nil, nil
	case !acceptable(wanted, response.Audiences, len(audiences) > 0):
		return nil, fmt.Errorf("the token is for the audiences %q, not for any of %q", response.Audiences, wanted)
	}
	return response, nil
}

// reason returns why a token is bad.
func reason(err error) string {
	if err == nil {
		return "the token is not good"
	}
	// The error may quote the token, and strings in protobuf must be UTF-8.
	return strings.ToValidUTF8(err.Error(), "\uFFFD")
}

// requestWithToken returns a request that has only a token. The token is in the WebSocket protocols, not in an Authorization header,
// because only there it can be any string: kube-apiserver splits that header at blanks.
func requestWithToken(ctx context.Context, token string) *http.Request {
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

// acceptable implements kube-apiserver's rule about audiences. A request may have a token without audiences. A token review that names
// audiences may not.
func acceptable(wanted, got authenticator.Audiences, certain bool) bool {
	if len(wanted) == 0 || len(got) == 0 && !certain {
		return true
	}
	return len(wanted.Intersect(got)) > 0
}

// setValidity sets how long the answer holds, and what it depends on.
func (s *Service) setValidity(answer *identityv1.AuthenticateResponse, token string, u user.Info) {
	facts := s.config.Dependencies.factsOf(token, u)
	fresh := freshness
	if facts.kind == otherToken && s.config.WebhookFreshness != nil {
		fresh = *s.config.WebhookFreshness
	}
	if facts.issuer != "" && s.config.Dependencies.unsettled() {
		fresh = min(fresh, unsettledFreshness)
	}
	if !facts.complete {
		fresh = 0
	}
	if !facts.ends.IsZero() {
		left := max(time.Until(facts.ends), 0)
		answer.ValidFor = durationpb.New(left)
		fresh = min(fresh, left)
	}
	answer.FreshFor = durationpb.New(fresh)
	answer.Dependencies = facts.dependencies
	answer.RevocationIsTold = s.reportsEnd(facts)
}

// reportsEnd returns whether invalidations report everything that may revoke the token before it expires.
func (s *Service) reportsEnd(token tokenFacts) bool {
	switch token.kind {
	case bootstrapToken:
		return token.complete
	case serviceAccountToken:
		// There is no report that an external signer withdraws a key.
		return token.complete && s.config.Dependencies.tokens.ExternalPublicKeysGetter == nil
	default:
		// A token of --token-auth-file is valid as long as the process runs.
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
	sent := log.last()
	var news []*identityv1.Invalidation
	heartbeat := time.NewTicker(heartbeatInterval)
	defer heartbeat.Stop()
	for due := true; ; due = len(news) > 0 || s.isCurrent() {
		if due {
			if err := stream.Send(&identityv1.WatchResponse{Run: log.run, Sequence: sent, Invalidations: news}); err != nil {
				return err
			}
		}
		select {
		case <-log.after(sent):
		case <-heartbeat.C:
		case <-s.stopped:
			return errStops
		case <-unready:
			return cmp.Or(s.check(), errWasUnready)
		case <-stream.Context().Done():
			return context.Cause(stream.Context())
		}
		var complete bool
		if news, complete = log.since(sent); !complete {
			slowWatchers.Inc()
			return status.Error(codes.ResourceExhausted, "invalidations come faster than they are read")
		}
		sent += uint64(len(news))
	}
}
