// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tripod-k8s/tripod/services/aggregator/routing"
	"github.com/tripod-k8s/tripod/services/aggregator/shares"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/balance"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/connections"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/replay"
)

// maxSent is how often a request is sent at most. Replicas that cannot be connected to do not count.
const maxSent = 3

// RoundTrip sends the request to a replica, and to another one if the first has certainly not
// processed it, or if it does no harm that it may have:
//
//   - any request where no connection could be made, where it was closed before anything was sent,
//     and where the replica says that it did not process the request;
//   - a request that only reads also when the connection breaks before there is an answer, or while a
//     short one is on its way;
//   - one that is answered 429 with a Retry-After once, if there is another replica;
//   - one that is answered 404 once, if it is for a custom resource that is new and another replica
//     had it first.
//
// The body must not have been sent in parts that are forgotten, and there is a budget for requests
// that a replica has seen.
//
// An error is an *UnreachableError when no replica has processed the request.
func (b *Backend) RoundTrip(req *http.Request) (*http.Response, error) {
	class := routing.Of(req)
	sender, _ := request.UserFrom(req.Context())
	anonymous := IsAnonymous(sender)
	c := &call{backend: b, req: req, class: class, balance: balanceOf(class), wire: wireOf(class, anonymous)}
	if sender != nil {
		c.user = shares.NameOf(sender)
	}
	if class.Replica != "" && !anonymous { // who is unknown does not learn which replicas exist
		if c.pinned = b.endpointAt(class.Replica); c.pinned == nil {
			return nil, &UnknownReplicaError{b.name, class.Replica}
		}
	}
	b.budget.deposit()
	c.body = replay.New(req)
	resp, err := c.send()
	if err == nil && b.mayNotSend(resp, class) {
		err = &RedirectError{b.name}
		_ = resp.Body.Close() // nobody reads it
	}
	if err != nil {
		c.body.Close()
		return nil, err
	}
	// The body may still be on its way while the answer is. The transport closes it.
	c.body.Settle()
	return resp, nil
}

// mayNotSend reports whether an answer redirects the client, which would take its credentials along (CVE-2022-3172). Only core may, for what
// applications answer and for paths without API objects. proxy.Aggregated has the rule for aggregated API servers.
func (b *Backend) mayNotSend(resp *http.Response, class *routing.Request) bool {
	if resp.StatusCode < 300 || resp.StatusCode > 399 || resp.StatusCode == http.StatusNotModified {
		return false
	}
	return b.name == Extensions || (b.name == Core && class.Kind != routing.PassedOn && class.Kind != routing.NonResource)
}

// call is a request on its way to a replica that answers it.
type call struct {
	backend *Backend
	req     *http.Request
	// user is whose retries count, empty for the aggregator itself.
	user    string
	body    *replay.Body
	class   *routing.Request
	balance balance.Request
	wire    connections.Wire

	// tried are the replicas that the request was given to, and unreachable those of them that
	// could not be connected to.
	tried, unreachable []*endpoint
	// pinned is the only replica that may be asked, or nil.
	pinned *endpoint
	// first is the replica that had the custom resource first, once it is to be asked.
	first *endpoint
	// waited is set when one of them did not answer: there is no time to wait for another such.
	waited bool
	sent   int
	// uncertain is set when a replica may have processed the request.
	uncertain bool
	failures  []string
	// throttled is an answer 429 that will do if there is no better one.
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

// choose returns the replica to try next: one that was not tried, or else one that could at least be
// connected to.
func (c *call) choose() *endpoint {
	if c.pinned != nil {
		return c.pinnedAgain()
	}
	b := c.backend
	r := b.roster.Load()
	if c.first != nil && !slices.Contains(c.tried, c.first) {
		return c.first
	}
	if len(c.tried) == 0 {
		return r.pick(b.policy, c.balance, nil)
	}
	if e := r.pick(b.policy, c.balance, func(e *endpoint, rank rank) bool {
		return !slices.Contains(c.tried, e) && (rank != rankSilent || !c.waited)
	}); e != nil || c.throttled != nil {
		return e
	}
	return r.pick(b.policy, c.balance, func(e *endpoint, _ rank) bool {
		return slices.Contains(c.tried, e) && !slices.Contains(c.unreachable, e)
	})
}

func (c *call) sendTo(e *endpoint) (*http.Response, error) {
	wire := c.wire
	if wire == connections.Either && slices.Contains(c.tried, e) {
		// Its idle connections may all be as dead as the one before.
		wire = connections.Multiplexed
	}
	c.tried = append(c.tried, e)
	resp, err := e.roundTrip(c.req, c.body.Next(), c.balance.Kind, wire)
	if err == nil && resp.StatusCode == http.StatusServiceUnavailable && c.backend.checks.byConnection {
		signal(e.doubted)
	}
	return resp, err
}

// mayRepeat decides whether a request that got no answer is sent again.
func (c *call) mayRepeat(e *endpoint, err error) bool {
	reason := connections.ReasonOf(err)
	if c.req.Context().Err() != nil || reason == connections.Unknown || c.body.Err() != nil {
		c.uncertain = true // not a matter of replicas
		return false
	}
	c.failures = append(c.failures, fmt.Sprintf("%s: %v", e.address, err))
	switch reason {
	case connections.Full:
		c.unreachable = append(c.unreachable, e)
	case connections.Unreachable:
		c.unreachable = append(c.unreachable, e)
		c.waited = c.waited || connections.Silent(err)
		c.backend.doubt(e, reason)
	case connections.Broken:
		c.backend.doubt(e, reason)
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
	if reason != connections.Unreachable && reason != connections.Full && !c.mayBeSentAgain() {
		return false
	}
	c.retry(reason.String())
	return true
}

// mayAskAnother decides whether another replica is asked, because this one has too much to do.
func (c *call) mayAskAnother(resp *http.Response) bool {
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" || c.throttled != nil || c.class.Eviction {
		return false
	}
	// A kubelet, pod or service has its own reasons, and may have done a part of what it was asked for.
	if c.class.Kind == routing.PassedOn {
		return false
	}
	// An aggregated API server may have executed a part of the request before it answered 429.
	if !c.class.Repeatable && c.backend.checks.byConnection {
		return false
	}
	if !c.body.Complete() || !c.body.Replayable() {
		return false
	}
	another := c.backend.roster.Load().pick(c.backend.policy, c.balance, func(e *endpoint, rank rank) bool {
		return rank == rankServing && !slices.Contains(c.tried, e)
	})
	return another != nil && c.mayBeSentAgain()
}

// mayAskFirst decides whether the replica is asked that had the custom resource first, because this
// one does not know it, or did not when it answered. It did nothing else with the request.
func (c *call) mayAskFirst(e *endpoint, resp *http.Response) bool {
	if resp.StatusCode != http.StatusNotFound || c.first != nil || c.backend.firstReplica == nil || c.class.CustomResource.Resource == "" {
		return false
	}
	if !c.body.Complete() || !c.body.Replayable() {
		return false
	}
	address, ok := c.backend.firstReplica(c.class.CustomResource)
	if !ok || address == e.address {
		return false
	}
	c.first = c.backend.endpointAt(address)
	return c.first != nil && c.mayBeSentAgain()
}

// mayBeSentAgain takes from what is allowed to be sent again.
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

// giveUp returns what there is to say when the request is not sent again. The error is the last one,
// or nil if there is no replica left.
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

// forget drops an answer that nobody wants.
func forget(resp *http.Response) {
	// Short answers are read, so that their connection can be used again.
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
	_ = resp.Body.Close()
}

// RedirectError says that a backend has answered with a redirect, which it may not.
type RedirectError struct{ Backend string }

func (e *RedirectError) Error() string {
	return e.Backend + " attempted to redirect this request, which is not permitted"
}

// UnreachableError says that no replica of a backend has processed a request: none could be reached,
// or those that were refused it before.
type UnreachableError struct {
	Backend string
	// Failures say what happened, replica by replica.
	Failures []string
}

func (e *UnreachableError) Error() string {
	if len(e.Failures) == 0 {
		return fmt.Sprintf("no replica of %s is known, or all are frozen", e.Backend)
	}
	return fmt.Sprintf("no replica of %s can be reached: %s", e.Backend, strings.Join(e.Failures, "; "))
}
