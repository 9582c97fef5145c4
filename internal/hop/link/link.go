// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/internal/hop/addresses"
	"github.com/tripod-k8s/tripod/internal/hop/trust"
)

// Link knows the replicas of a service, and which of them answered last. All clients made from it share that.
type Link struct {
	// service is the name, as in "core".
	service string
	trust   trust.Options
	// waits is whether requests wait while no replica can be reached. Else they fail at once.
	waits bool

	// servers are tried in this order. The list is never changed, but replaced.
	servers atomic.Pointer[[]*url.URL]
	// current is the server that answered last.
	current atomic.Pointer[url.URL]
	// reached is true once a server has answered.
	reached atomic.Bool
	// away is true while no server can be reached.
	away atomic.Bool
}

// New returns a link to the replicas of a service at servers, which are tried in this order. While none can be reached,
// requests wait until one can or their context ends.
func New(service string, servers []*url.URL, trust trust.Options) *Link {
	l := &Link{service: service, trust: trust, waits: true}
	l.SetServers(servers)
	return l
}

// NewImpatient returns a link whose requests fail with an error that IsUnreachable knows while no replica can be reached.
func NewImpatient(service string, servers []*url.URL, trust trust.Options) *Link {
	l := New(service, servers, trust)
	l.waits = false
	return l
}

// SetServers says where the replicas are now. What was begun with others goes on.
func (l *Link) SetServers(servers []*url.URL) { l.servers.Store(&servers) }

// inOrder returns the servers, beginning with the one that answered last if it is still among them.
func (l *Link) inOrder() []*url.URL {
	servers, current := *l.servers.Load(), l.current.Load()
	first := slices.IndexFunc(servers, func(server *url.URL) bool { return current != nil && server.Host == current.Host })
	if first <= 0 {
		return servers
	}
	return slices.Concat(servers[first:], servers[:first])
}

// Config returns a client configuration for the service. It speaks Protobuf and has no rate limit of its own, as the loopback
// configuration of kube-apiserver.
func (l *Link) Config() *rest.Config {
	name := trust.ServerName(l.service)
	config := &rest.Config{
		Host: "https://" + name, // failover puts a server in its place
		ContentConfig: rest.ContentConfig{
			ContentType: runtime.ContentTypeProtobuf,
		},
		// Every service may be on this host, with a certificate that says so.
		Transport: newTransport(l.trust, name),
		QPS:       -1,
	}
	config.Wrap(l.over)
	return config
}

// over returns a transport to the servers of the link.
func (l *Link) over(next http.RoundTripper) http.RoundTripper {
	next = &failover{link: l, next: next}
	if l.waits {
		return Wait(next, whileUnreachable)
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

// QuotesUnreachable reports whether an error says that no replica of a service could be reached, if only in its text: plugins of
// admission make errors of their own of those that they get.
func QuotesUnreachable(service string, err error) bool {
	return err != nil && strings.Contains(err.Error(), unreachable(service))
}

func unreachable(service string) string { return "no replica of " + service + " can be reached" }

func (l *Link) noteReached(server *url.URL) {
	l.current.Store(server)
	l.reached.Store(true)
	if l.away.Swap(false) {
		klog.InfoS("Service can be reached", "service", l.service, "server", server.Host)
	}
}

// leave has requests begin with the server after this one: it can be connected to, but does not serve.
func (l *Link) leave(server *url.URL) {
	servers := *l.servers.Load()
	at := slices.IndexFunc(servers, func(other *url.URL) bool { return other.Host == server.Host })
	if at >= 0 {
		l.current.Store(servers[(at+1)%len(servers)])
	}
}

func (l *Link) noteAway(err error) {
	if !l.away.Swap(true) {
		klog.InfoS("Service cannot be reached", "service", l.service, "servers", strings.Join(l.hosts(), ","), "reason", err.Error())
	}
}

func (l *Link) hosts() []string {
	var hosts []string
	for _, server := range *l.servers.Load() {
		hosts = append(hosts, server.Host)
	}
	return hosts
}

// ParseServers returns the URLs that a flag or file gives, each of the form https://host:port. where names the flag in errors.
func ParseServers(where string, servers []string) ([]*url.URL, []error) {
	var urls []*url.URL
	var errs []error
	for _, server := range servers {
		at, err := addresses.OfServer(server)
		if err != nil || at.IsName {
			errs = append(errs, fmt.Errorf("%s: %q is not of the form https://host:port", where, server))
			continue
		}
		urls = append(urls, &url.URL{Scheme: "https", Host: at.Address()})
	}
	return urls, errs
}
