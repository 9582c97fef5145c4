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

	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/base/hop/replicas"
	"github.com/tripod-k8s/tripod/base/hop/trust"
)

// Link knows the replicas of a service, and which one answered last. All clients of a link share this knowledge.
type Link struct {
	// service is the name of the service, such as "core".
	service  string
	replicas *connected
	peers    *trust.Peers

	// set knows the addresses of the servers.
	set *replicas.Set
	// changed gets a value when the addresses change.
	changed chan struct{}
	// follows is true if the link probes each replica (FollowReplicas).
	follows atomic.Bool
	// servers (host:port) are in the order of preference. The list is replaced, never changed.
	servers atomic.Pointer[[]string]
	// current is the server (a string) that answered last, or "".
	current atomic.Value
	// reached is true once a server has answered.
	reached atomic.Bool
	// away is true while no server can be reached. unreachable is the time of the last failure, in nanoseconds since 1970.
	away        atomic.Bool
	unreachable atomic.Int64
}

// New returns a link to the replicas of a service at these servers, in order of preference.
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

// Run closes connections to replicas whose CA is no longer trusted, until the context ends.
func (l *Link) Run(ctx context.Context) { l.peers.Run(ctx) }

// SetServers sets where the replicas are now. Requests in flight to other replicas continue.
func (l *Link) SetServers(servers []addresses.Location) { l.set.Put(servers) }

// update stores the addresses of the servers.
func (l *Link) update(servers []string) {
	l.servers.Store(&servers)
	l.replicas.keep(servers)
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// inOrder returns the servers in the order in which to try them: first the one that answered last, and unhealthy ones at the end.
func (l *Link) inOrder() []string {
	servers := l.hosts()
	if first := slices.Index(servers, l.current.Load().(string)); first > 0 {
		servers = slices.Concat(servers[first:], servers[:first])
	}
	if !l.follows.Load() {
		return servers
	}
	var healthy, unhealthy []string
	for _, server := range servers {
		if l.replicas.isUnhealthy(server) {
			unhealthy = append(unhealthy, server)
		} else {
			healthy = append(healthy, server)
		}
	}
	return append(healthy, unhealthy...)
}

// Absence says what happens to a request while no replica can be reached.
type Absence int

const (
	// Wait lets requests wait until a replica can be reached or their context ends.
	Wait Absence = iota
	// Fail fails requests at once, with an error for which IsUnreachable returns true.
	Fail
)

// Config returns a client configuration for the service. Like the loopback configuration of kube-apiserver, it uses Protobuf and has no
// rate limit. All clients of a link share connections, and what the link knows about replicas.
func (l *Link) Config(absence Absence) *rest.Config {
	config := &rest.Config{
		Host: "https://" + trust.ServerName(l.service), // failover replaces it with a server
		ContentConfig: rest.ContentConfig{
			ContentType: runtime.ContentTypeProtobuf,
		},
		Transport: l.replicas,
		QPS:       -1,
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return l.over(next, absence) })
	return config
}

// over returns a transport to the servers of the link, on top of next.
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

// Check implements healthz.HealthChecker. It fails until the service has answered once, and never again: a backend keeps serving while
// other services are away.
func (l *Link) Check(*http.Request) error {
	if l.reached.Load() {
		return nil
	}
	return fmt.Errorf("no replica of %s has answered yet", l.service)
}

// unreachableError means that a request was not sent, because no replica can be reached.
type unreachableError struct {
	service string
	cause   error
}

func (e *unreachableError) Error() string {
	return fmt.Sprintf("%s: %v", unreachable(e.service), e.cause)
}

func (e *unreachableError) Unwrap() error { return e.cause }

// IsUnreachable reports whether a request was not sent because no replica of its service could be reached.
func IsUnreachable(err error) bool {
	var unreachable *unreachableError
	return errors.As(err, &unreachable)
}

// Explains reports whether an error has its reason in this link: no replica could be reached at some time after since. Admission plugins
// wrap errors in errors of their own, so that only the text remains. Others can write the same text. So Explains returns true only if a
// request did fail for this reason in that time.
func (l *Link) Explains(err error, since time.Time) bool {
	return IsUnreachable(err) ||
		err != nil && l.unreachable.Load() >= since.UnixNano() && strings.Contains(err.Error(), unreachable(l.service))
}

func unreachable(service string) string { return "no replica of " + service + " can be reached" }

// noteReached records that a server has answered. It becomes the current server, unless another one did since the caller read first.
func (l *Link) noteReached(server string, first any) {
	l.current.CompareAndSwap(first, server)
	l.reached.Store(true)
	if l.away.Swap(false) {
		klog.InfoS("Service can be reached", "service", l.service, "server", server)
	}
}

// leave makes requests begin with the server after this one, which accepts connections but does not serve.
func (l *Link) leave(server string) {
	if current := l.current.Load(); current != "" && current != server {
		return // the link has left it already
	}
	servers := l.hosts()
	if at := slices.Index(servers, server); at >= 0 {
		l.current.Store(servers[(at+1)%len(servers)])
	}
}

// judge decides by an answer whether to stay with a server or to leave it.
func (l *Link) judge(server string, req *http.Request, response *http.Response) {
	switch status := response.StatusCode; {
	case l.follows.Load() && req.Method == http.MethodGet && fails(status):
		l.leave(server)
		if len(l.hosts()) == 1 || l.anotherIsReady(server) { // a single address may be a load balancer
			l.replicas.leave(server, "it answers "+response.Status)
		}
	case status == http.StatusServiceUnavailable, l.follows.Load() && status == http.StatusTooManyRequests:
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

// ParseServers reads the addresses of servers from a flag or file. Each is https://host:port or, if names are allowed, dns:///host:port.
// where names the flag or file in errors.
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
