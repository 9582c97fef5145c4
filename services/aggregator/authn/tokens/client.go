// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package tokens

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/singleflight"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/server/healthz"

	"github.com/tripod-k8s/tripod/base/hop/follow"
	"github.com/tripod-k8s/tripod/base/hop/recovery"
	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

// questionTimeout bounds the time for the answer to one question, with a second try. It is long, because core may be busy: kube-apiserver,
// which judges tokens itself, lets such requests wait as well.
const questionTimeout = 30 * time.Second

// Config says which core to ask.
type Config struct {
	// Addresses returns those of the replicas of core, host:port, as they are now.
	Addresses func() []string
	// Dial returns a connection to the replica at one of the addresses. It does not wait for it.
	Dial func(address string) (follow.Conn, error)
	// Spare reports whether the replica at an address can be spared, because another one is better (see follow.Stream). It may be nil.
	Spare func(address string) bool
	// Grace is how long answers in the cache are used while no replica is followed.
	Grace time.Duration
}

// Client authenticates tokens with the help of core, as long as Run runs. Audit annotations and warnings that belong to
// a token are added to the context of every request, as k8s.io/apiserver's authenticators do.
type Client struct {
	keyer     *keyer
	cache     *cache
	follower  *follower
	questions singleflight.Group
	limiter   *questionLimiter
	metrics   *clientMetrics
}

var (
	_ authenticator.Token   = &Client{}
	_ healthz.HealthChecker = &Client{}
)

// New returns a client. Its metrics are collected once they are registered.
func New(config Config) *Client {
	c := &Client{keyer: newKeyer(), cache: newCache(config.Grace), limiter: newQuestionLimiter(), metrics: newMetrics()}
	c.follower = &follower{addresses: config.Addresses, dial: config.Dial, spare: config.Spare, cache: c.cache, metrics: c.metrics}
	c.follower.begin()
	return c
}

// Run follows core until the context ends. It is called once.
func (c *Client) Run(ctx context.Context) {
	c.follower.run(ctx)
}

// Name implements healthz.HealthChecker.
func (c *Client) Name() string {
	return "identity-followed-once"
}

// Check implements healthz.HealthChecker. It fails until a replica of core was followed once. Later there may be none:
// clients with certificates do not need it.
func (c *Client) Check(*http.Request) error {
	if c.follower.foundOnce.Load() {
		return nil
	}
	return errors.New("no replica of core was followed yet, so no token can be checked")
}

// UnavailableError says that no replica could be asked about a token: neither is it good, nor bad.
type UnavailableError struct {
	err error
}

// NewUnavailableError returns the error for that reason.
func NewUnavailableError(why error) *UnavailableError { return &UnavailableError{why} }

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("core cannot be asked about the token: %v", e.err)
}

func (e *UnavailableError) Unwrap() error {
	return e.err
}

// AuthenticateToken implements authenticator.Token. The error is an *UnavailableError when core could not be asked; any
// other says why the token is not good.
func (c *Client) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	audiences, _ := authenticator.AudiencesFrom(ctx)
	k := c.keyer.key(token, audiences)
	a, how := c.cache.get(k)
	c.metrics.found(how)
	if a == nil {
		if !canBeGood(token) {
			return nil, false, nil
		}
		var err error
		if a, err = c.coalesce(ctx, k, &identityv1.AuthenticateRequest{Token: token, Audiences: audiences}); err != nil {
			return nil, false, err
		}
	}
	return a.give(ctx)
}

// canBeGood reports whether core can be asked about the token. Messages hold only UTF-8.
func canBeGood(token string) bool {
	return token != "" && utf8.ValidString(token)
}

// coalesce asks core, once for all requests that want to know the same.
//
// When another request's question is under way already, core may have looked at the token before this request began. What
// comes back is as old as something from the cache, and so is used only if it is to be found there: it is good, core
// lets it be used again, and nothing that it depends on was invalidated as far as is known by then. Otherwise the
// next question is later than this request, whatever request asks it.
func (c *Client) coalesce(ctx context.Context, k key, request *identityv1.AuthenticateRequest) (*answer, error) {
	for first := true; ; first = false {
		own := false
		results := c.questions.DoChan(string(k[:]), func() (any, error) {
			own = true
			// Others may wait for it when this request is gone.
			return c.ask(context.WithoutCancel(ctx), k, request)
		})
		var result singleflight.Result
		select {
		case result = <-results:
		case <-ctx.Done():
			return nil, &UnavailableError{ctx.Err()}
		}
		if result.Err != nil {
			return nil, result.Err
		}
		if own || !first {
			return result.Val.(*answer), nil
		}
		if a, _ := c.cache.get(k); a != nil {
			return a, nil
		}
	}
}

var errOtherRun = errors.New("another run answers than the one that is followed")

// ask asks the replica that is followed, and if it does not answer, the next one.
func (c *Client) ask(ctx context.Context, k key, request *identityv1.AuthenticateRequest) (_ *answer, err error) {
	defer recovery.ToError("an answer about a token", &err)
	ctx, cancel := context.WithTimeout(ctx, questionTimeout)
	defer cancel()
	done, err := c.limiter.acquire(ctx)
	if err != nil {
		c.metrics.refused.Inc()
		return nil, &UnavailableError{err}
	}
	defer done()
	r, err := c.follower.followed(ctx)
	if err != nil {
		return nil, &UnavailableError{err}
	}
	a, err := c.askReplica(ctx, r, request)
	if err != nil && mayRetry(ctx, err) {
		if r, err = c.follower.next(ctx, r); err == nil {
			a, err = c.askReplica(ctx, r, request)
		}
	}
	if err != nil {
		return nil, &UnavailableError{err}
	}
	c.cache.put(k, a)
	return a, nil
}

// mayRetry reports whether another replica may give the answer that one did not give.
func mayRetry(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	code := status.Code(err)
	// Canceled is what remains of a connection that was closed because its replica is lost.
	return code == codes.Unavailable || code == codes.Canceled || errors.Is(err, errOtherRun)
}

// askReplica asks one replica. A token that is not good is an answer, not an error.
func (c *Client) askReplica(ctx context.Context, r *replica, request *identityv1.AuthenticateRequest) (*answer, error) {
	asked := time.Now()
	message, err := r.client.Authenticate(ctx, request)
	if err != nil {
		c.metrics.asked(noAnswer, asked)
		return nil, err
	}
	a := newAnswer(message, asked)
	if a.run != r.run {
		// The connection leads to another process by now. The stream is still of the one before.
		r.leave(errOtherRun)
		c.metrics.asked(noAnswer, asked)
		return nil, errOtherRun
	}
	if a.good() {
		c.metrics.asked(good, asked)
	} else {
		c.metrics.asked(bad, asked)
	}
	return a, nil
}
