// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/internal/hop/addresses"
	"github.com/tripod-k8s/tripod/internal/hop/replicas"
	"github.com/tripod-k8s/tripod/internal/hop/trust"
)

// Link knows the replicas of a service, and which of them answered last. All clients made from it share that.
type Link struct {
	// service is the name, as in "core".
	service  string
	replicas *connected
	peers    *trust.Peers

	// set says where the servers are.
	set *replicas.Set
	// changed gets a value when that changes.
	changed chan struct{}
	// follows is whether replicas are followed one by one.
	follows atomic.Bool
	// servers (host:port) are tried in this order. The list is never changed, but replaced.
	servers atomic.Pointer[[]string]
	// current is the server (string) that answered last, or "".
	current atomic.Value
	// reached is true once a server has answered.
	reached atomic.Bool
	// away is true while no server can be reached, and unreachable when that was last found (in nanoseconds since 1970).
	away        atomic.Bool
	unreachable atomic.Int64
}

// New returns a link to the replicas of a service at servers, which are tried in this order.
func New(service string, servers []addresses.Location, own trust.Options) *Link {
	name := trust.ServerName(service)
	l := &Link{service: service, peers: own.Servers(name), changed: make(chan struct{}, 1)}
	l.replicas = &connected{
		newTransport: func() *http.Transport { return newTransport(own, name, l.peers) },
		byHost:       map[string]*replica{},
	}
	l.current.Store("")
	l.set = replicas.New(replicas.Config{Service: service, Ready: l.replicas.isReady, Changed: l.update})
	l.SetServers(servers)
	return l
}

// Run closes connections to replicas whose CA is taken away, until the context ends.
func (l *Link) Run(ctx context.Context) { l.peers.Run(ctx) }

// SetServers says where the replicas are now. What was begun with others goes on.
func (l *Link) SetServers(servers []addresses.Location) { l.set.Put(servers) }

// update takes over where the servers are.
func (l *Link) update(servers []string) {
	l.servers.Store(&servers)
	l.replicas.keep(servers)
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// inOrder returns the servers, beginning with the one that answered last if it is still among them. Those that are not ready come last.
func (l *Link) inOrder() []string {
	servers := l.hosts()
	if first := slices.Index(servers, l.current.Load().(string)); first > 0 {
		servers = slices.Concat(servers[first:], servers[:first])
	}
	if !l.follows.Load() {
		return servers
	}
	var well, unwell []string
	for _, server := range servers {
		if l.replicas.isUnwell(server) {
			unwell = append(unwell, server)
		} else {
			well = append(well, server)
		}
	}
	return append(well, unwell...)
}

// Absence is what becomes of a request while no replica can be reached.
type Absence int

const (
	// Wait has requests wait until a replica can be reached or their context ends.
	Wait Absence = iota
	// Fail has requests fail at once, with an error that IsUnreachable knows.
	Fail
)

// Config returns a client configuration for the service. It speaks Protobuf and has no rate limit of its own, as the loopback
// configuration of kube-apiserver. All clients of a link share connections, and what is known of replicas.
func (l *Link) Config(absence Absence) *rest.Config {
	config := &rest.Config{
		Host: "https://" + trust.ServerName(l.service), // failover puts a server in its place
		ContentConfig: rest.ContentConfig{
			ContentType: runtime.ContentTypeProtobuf,
		},
		Transport: l.replicas,
		QPS:       -1,
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return l.over(next, absence) })
	return config
}

// over returns a transport to the servers of the link.
func (l *Link) over(next http.RoundTripper, absence Absence) http.RoundTripper {
	next = &failover{link: l, next: next}
	if absence == Wait {
		return Until(next, whileUnreachable)
	}
	return next
}

// Name implements healthz.HealthChecker.
func (l *Link) Name() string {
	return l.service
}

// Check implements healthz.HealthChecker. It fails until the service has answered for the first time, and never again: a
// backend serves while others are away.
func (l *Link) Check(*http.Request) error {
	if l.reached.Load() {
		return nil
	}
	return fmt.Errorf("no replica of %s has answered yet", l.service)
}

// unreachableError says that a request was not sent, because no replica can be reached.
type unreachableError struct {
	service string
	cause   error
}

func (e *unreachableError) Error() string {
	return fmt.Sprintf("%s: %v", unreachable(e.service), e.cause)
}

func (e *unreachableError) Unwrap() error { return e.cause }

// IsUnreachable reports whether a request was not sent, because no replica of its service could be reached.
func IsUnreachable(err error) bool {
	var unreachable *unreachableError
	return errors.As(err, &unreachable)
}

// Explains reports whether the reason of an error is that no replica of this link could be reached, since a time before the error. Plugins of
// admission make errors of their own of those that they get, so that only the text is left. Others can write such a text, too: it counts only if
// a request did fail for this reason in that time.
func (l *Link) Explains(err error, since time.Time) bool {
	return IsUnreachable(err) ||
		err != nil && l.unreachable.Load() >= since.UnixNano() && strings.Contains(err.Error(), unreachable(l.service))
}

func unreachable(service string) string { return "no replica of " + service + " can be reached" }

// noteReached notes that a server has answered. It is the current one from then on, unless another has become that since first was.
func (l *Link) noteReached(server string, first any) {
	l.current.CompareAndSwap(first, server)
	l.reached.Store(true)
	if l.away.Swap(false) {
		klog.InfoS("Service can be reached", "service", l.service, "server", server)
	}
}

// leave has requests begin with the server after this one: it can be connected to, but does not serve.
func (l *Link) leave(server string) {
	if current := l.current.Load(); current != "" && current != server {
		return // it was left already
	}
	servers := l.hosts()
	if at := slices.Index(servers, server); at >= 0 {
		l.current.Store(servers[(at+1)%len(servers)])
	}
}

// judge takes an answer to mean that a server is well, or leaves it.
func (l *Link) judge(server string, req *http.Request, response *http.Response) {
	switch status := response.StatusCode; {
	case l.follows.Load() && req.Method == http.MethodGet && fails(status):
		l.leave(server)
		if len(l.hosts()) == 1 || l.anotherIsReady(server) { // a single address may be a load balancer's
			l.replicas.leave(server, "it answers "+response.Status)
		}
	case status == http.StatusServiceUnavailable:
		l.leave(server)
	}
}

func (l *Link) noteAway(err error) {
	l.unreachable.Store(time.Now().UnixNano())
	if !l.away.Swap(true) {
		klog.InfoS("Service cannot be reached", "service", l.service, "servers", strings.Join(l.hosts(), ","), "reason", err.Error())
	}
}

func (l *Link) hosts() []string { return *l.servers.Load() }

// ParseServers reads where a flag or file says that servers are: each https://host:port or, for FollowReplicas, dns:///host:port. where names
// the flag in errors.
func ParseServers(where string, servers []string, names bool) ([]addresses.Location, []error) {
	form := "https://host:port"
	if names {
		form += " or dns:///host:port"
	}
	var found []addresses.Location
	var errs []error
	for _, server := range servers {
		at, err := addresses.OfServer(server)
		if err != nil || at.IsName && !names {
			errs = append(errs, fmt.Errorf("%s: %q is not of the form %s", where, server, form))
			continue
		}
		found = append(found, at)
	}
	return found, errs
}
