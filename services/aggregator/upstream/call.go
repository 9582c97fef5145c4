// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tripod-k8s/tripod/services/aggregator/requestmemory"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/balance"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/connections"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/replay"
)

// maxSent limits how often the backend sends a request. Attempts that find no connection do not count.
const maxSent = 3

// RoundTrip sends the request to a replica. It retries at another replica if the first one certainly did not process the request, or if
// processing it twice does no harm:
//
//   - any request, if no connection could be made, if the connection closed before anything was sent, or if the replica says that it did
//     not process the request;
//   - a read, also if the connection breaks before the answer, or within a short answer;
//   - once after 429 with Retry-After, if another replica is available;
//   - once after 404 for a new custom resource, if another replica had the resource first.
//
// A retry needs the whole body (package replay). A retry of a request that a replica has seen also needs a place in the budget.
//
// The error is an *UnreachableError if no replica has processed the request.
func (b *Backend) RoundTrip(req *http.Request) (*http.Response, error) {
	class := routing.Of(req)
	sender, _ := request.UserFrom(req.Context())
	anonymous := IsAnonymous(sender)
	c := &call{backend: b, req: req, class: class, balance: balanceOf(class), wire: wireOf(class, anonymous, isOrdinary(req))}
	if sender != nil {
		c.user = requestmemory.NameOf(sender)
	}
	if class.Replica != "" && !anonymous { // an unknown client must not learn which replicas exist
		if c.pinned = b.endpointAt(class.Replica); c.pinned == nil {
			return nil, &UnknownReplicaError{b.name, class.Replica}
		}
	}
	b.budget.deposit()
	c.body = replay.New(req)
	resp, err := c.send()
	if err == nil && b.mayNotSend(resp, class) {
		err = &RedirectError{b.name}
		_ = resp.Body.Close() // it is not read
	}
	if err != nil {
		c.body.Close()
		return nil, err
	}
	// The transport may still send the body while the answer arrives. It closes the body then.
	c.body.Settle()
	return resp, nil
}

// mayNotSend reports whether an answer is a forbidden redirect: the client would send its credentials along (CVE-2022-3172). Only core may
// redirect, and only for answers of applications and for paths without API objects. proxy.Aggregated has the rule for aggregated API
// servers.
func (b *Backend) mayNotSend(resp *http.Response, class *routing.Request) bool {
	if resp.StatusCode < 300 || resp.StatusCode > 399 || resp.StatusCode == http.StatusNotModified {
		return false
	}
	if b.aggregated {
		return false
	}
	return b.name != Core || class.Kind != routing.PassedOn && class.Kind != routing.NonResource
}

// call is a request and the attempts to get an answer.
type call struct {
	backend *Backend
	req     *http.Request
	// user is the user whose retries count. It is empty for requests of the aggregator itself.
	user    string
	body    *replay.Body
	class   *routing.Request
	balance balance.Request
	wire    connections.Wire

	// tried are the replicas that got the request. unreachable are those of them to which no connection could be made.
	tried, unreachable []*endpoint
	// pinned is the only replica that may get the request, or nil.
	pinned *endpoint
	// first is the replica that had the custom resource first. It is nil until the call must ask it.
	first *endpoint
	// waited is true after one replica did not answer. There is no time to wait for a second one.
	waited bool
	sent   int
	// uncertain is true if a replica may have processed the request.
	uncertain bool
	failures  []string
	// throttled is an answer 429. The client gets it if there is no better answer.
	throttled *http.Response
}

func (c *call) send() (*http.Response, error) {
	for {
		e := c.choose()
		if e == nil {
			return c.giveUp(nil)
		}
		resp, err := c.sendTo(e)
		if err == nil {
			err = c.hold(resp)
		}
		switch {
		case err == nil && c.mayAskAnother(resp):
			c.throttled = resp
			c.retry("throttled")
		case err == nil && c.mayAskFirst(e, resp):
			forget(resp)
			c.retry("fresh")
		case err == nil:
			c.forgetThrottled()
			return resp, nil
		case !c.mayRepeat(e, err):
			return c.giveUp(err)
		}
	}
}

// choose returns the next replica: an untried one, or else one that accepted a connection.
func (c *call) choose() *endpoint {
	if c.pinned != nil {
		return c.pinnedAgain()
	}
	b := c.backend
	r := b.roster.Load()
	if c.first != nil && !slices.Contains(c.tried, c.first) {
		return c.first
	}
	having := c.having()
	if having == nil && len(c.tried) == 0 {
		return r.pick(b.policy, c.balance, nil)
	}
	has := func(e *endpoint) bool { return having == nil || slices.Contains(having, e.address) }
	if e := r.pick(b.policy, c.balance, func(e *endpoint, rank rank) bool {
		return has(e) && !slices.Contains(c.tried, e) && (rank < rankSilent || !c.waited)
	}); e != nil || c.throttled != nil {
		return e
	}
	return r.pick(b.policy, c.balance, func(e *endpoint, _ rank) bool {
		return has(e) && slices.Contains(c.tried, e) && !slices.Contains(c.unreachable, e)
	})
}

func (c *call) sendTo(e *endpoint) (*http.Response, error) {
	wire := c.wire
	if wire == connections.Either && slices.Contains(c.tried, e) {
		// All idle connections may be as dead as the one before.
		wire = connections.Multiplexed
	}
	c.tried = append(c.tried, e)
	resp, err := e.roundTrip(c.req, c.body.Next(), c.balance.Kind, wire)
	if err == nil && resp.StatusCode == http.StatusServiceUnavailable && c.backend.checks.byConnection {
		signal(e.doubted)
	}
	return resp, err
}

// unsent are the reasons why a replica did not even notice a request. A retry costs it nothing.
var unsent = []connections.Reason{connections.Unreachable, connections.Full, connections.Unsupported}

// mayRepeat decides whether to retry a request that got no answer.
func (c *call) mayRepeat(e *endpoint, err error) bool {
	reason := connections.ReasonOf(err)
	if c.req.Context().Err() != nil || reason == connections.Unknown || reason == connections.TooLarge || c.body.Err() != nil {
		c.uncertain = true // another replica would not help
		return false
	}
	c.failures = append(c.failures, fmt.Sprintf("%s: %v", e.address, err))
	switch reason {
	case connections.Full, connections.Unsupported:
		c.unreachable = append(c.unreachable, e)
	case connections.Unreachable:
		c.unreachable = append(c.unreachable, e)
		c.waited = c.waited || connections.Silent(err)
		c.backend.doubt(e, reason)
	case connections.Broken:
		switch {
		case errors.Is(err, connections.ErrFrozen): // that was the aggregator
		case c.wire == connections.Multiplexed || c.wire == connections.Either:
			c.backend.doubt(e, reason)
		default:
			// The replica may have closed the connection because of this request, which other connections do not share.
			signal(e.doubted)
		}
	}
	if !reason.Unprocessed() {
		c.uncertain = true
		if !c.class.Repeatable {
			return false
		}
	}
	if !c.body.Replayable() {
		return false
	}
	if !slices.Contains(unsent, reason) && !c.mayBeSentAgain() {
		return false
	}
	c.retry(reason.String())
	return true
}

// mayAskAnother decides whether to retry at another replica after a 429.
func (c *call) mayAskAnother(resp *http.Response) bool {
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" || c.throttled != nil || c.class.Eviction {
		return false
	}
	// A kubelet, pod or service has its own reasons for 429, and may have done a part of the work.
	if c.class.Kind == routing.PassedOn {
		return false
	}
	// An aggregated API server may have done a part of the work before it answered 429.
	if !c.class.Repeatable && c.backend.checks.byConnection {
		return false
	}
	if !c.body.Complete() || !c.body.Replayable() {
		return false
	}
	r := c.backend.roster.Load()
	having := c.having()
	another := r.pick(c.backend.policy, c.balance, func(e *endpoint, rank rank) bool {
		serves := rank == rankServing || rank == rankHeldBack && r.tiers[0].rank == rankHeldBack
		return serves && !slices.Contains(c.tried, e) && (having == nil || slices.Contains(having, e.address))
	})
	return another != nil && c.mayBeSentAgain()
}

// mayAskFirst decides whether to retry at the replica that had the custom resource first. This replica did not know the resource when it
// answered, so it did nothing with the request.
func (c *call) mayAskFirst(e *endpoint, resp *http.Response) bool {
	if resp.StatusCode != http.StatusNotFound || c.first != nil || c.backend.firstReplica == nil || c.class.Resource.Resource == "" {
		return false
	}
	if !c.body.Complete() || !c.body.Replayable() {
		return false
	}
	address, ok := c.backend.firstReplica(c.class.Resource)
	if !ok || address == e.address {
		return false
	}
	if c.backend.isHeldBack(address) {
		return false
	}
	c.first = c.backend.endpointAt(address)
	return c.first != nil && c.mayBeSentAgain()
}

// mayBeSentAgain takes a retry from the budget. It returns false if no retry is left.
func (c *call) mayBeSentAgain() bool {
	if c.sent++; c.sent >= maxSent {
		return false
	}
	if !c.backend.budget.withdraw(c.user) {
		retriesDeniedTotal.WithLabelValues(c.backend.name).Inc()
		return false
	}
	return true
}

func (c *call) retry(reason string) {
	retriesTotal.WithLabelValues(c.backend.name, reason).Inc()
}

// giveUp returns the result of a request without more retries. err is the last error, or nil if no replica is left.
func (c *call) giveUp(err error) (*http.Response, error) {
	switch {
	case c.throttled != nil && (c.class.Repeatable || !c.uncertain):
		return c.throttled, nil
	case c.uncertain && err != nil:
		c.forgetThrottled()
		return nil, err
	}
	return nil, &UnreachableError{Backend: c.backend.name, Failures: c.failures}
}

func (c *call) forgetThrottled() {
	if c.throttled != nil {
		forget(c.throttled)
	}
}

// forget drops an answer.
func forget(resp *http.Response) {
	// Reading a short answer to its end makes its connection usable again.
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
	_ = resp.Body.Close()
}

// IsTooLarge reports whether a request was not sent because its headers are larger than the replica accepts.
func IsTooLarge(err error) bool { return connections.ReasonOf(err) == connections.TooLarge }

// RedirectError means that a backend answered with a redirect that it may not send.
type RedirectError struct{ Backend string }

func (e *RedirectError) Error() string {
	return e.Backend + " attempted to redirect this request, which is not permitted"
}

// UnreachableError means that no replica of a backend has processed a request. The replicas could not be reached, or rejected the request
// first.
type UnreachableError struct {
	Backend string
	// Failures has one entry for each attempt.
	Failures []string
}

func (e *UnreachableError) Error() string {
	if len(e.Failures) == 0 {
		return fmt.Sprintf("no replica of %s is known", e.Backend)
	}
	return fmt.Sprintf("no replica of %s can be reached: %s", e.Backend, strings.Join(e.Failures, "; "))
}
