// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/internal/hop/follow"
)

const (
	// resolveInterval is how often names of replicas are looked up.
	resolveInterval = 5 * time.Second
	resolveTimeout  = 5 * time.Second
	// probeInterval is how often each replica is asked whether it is ready, and probeTimeout how long it may take.
	probeInterval = time.Second
	probeTimeout  = 3 * time.Second
	// patience is how many probes in a row must fail.
	patience = 2
)

// nameScheme is that of the URL of a name whose addresses are replicas.
const nameScheme = "dns"

// FollowReplicas looks up names of replicas and asks each replica whether it is ready, until the context ends. A replica that is not ready, or
// answers a read with 429 or 5xx, is left if there is another. While none is ready all stays as it is.
func (l *Link) FollowReplicas(ctx context.Context) {
	l.follows.Store(true)
	probes := follow.NewEach(l.probe)
	defer probes.Wait()
	ticker := time.NewTicker(resolveInterval)
	defer ticker.Stop()
	for {
		l.resolve(ctx)
		probes.Set(ctx, l.hosts())
		select {
		case <-ctx.Done():
			return
		case <-l.changed:
		case <-ticker.C:
		}
	}
}

// resolve puts the addresses of names in the place of the names. A name that cannot be looked up stands for what it stood for before.
func (l *Link) resolve(ctx context.Context) {
	for _, server := range *l.configured.Load() {
		if server.Scheme != nameScheme {
			continue
		}
		addresses, err := lookUp(ctx, server.Host)
		if err != nil {
			if ctx.Err() == nil {
				klog.ErrorS(err, "Looking up the replicas of a service", "service", l.service, "name", server.Host)
			}
			continue
		}
		l.resolved.Store(server.Host, addresses)
	}
	l.update()
}

// lookUp returns the URLs of a name, host:port.
func lookUp(ctx context.Context, name string) ([]*url.URL, error) {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	host, port, err := net.SplitHostPort(name)
	if err != nil {
		return nil, err
	}
	found, err := net.DefaultResolver.LookupHost(ctx, host)
	var failed *net.DNSError
	if err != nil && (!errors.As(err, &failed) || !failed.IsNotFound) {
		return nil, err
	}
	slices.Sort(found)
	var urls []*url.URL
	for _, address := range found {
		urls = append(urls, &url.URL{Scheme: "https", Host: net.JoinHostPort(address, port)})
	}
	return urls, nil
}

// update makes the servers those that are configured, with the addresses of names.
func (l *Link) update() {
	servers := []*url.URL{}
	for _, server := range *l.configured.Load() {
		if server.Scheme != nameScheme {
			servers = append(servers, server)
		} else if known, ok := l.resolved.Load(server.Host); ok {
			servers = append(servers, known.([]*url.URL)...)
		}
	}
	l.servers.Store(&servers)
	l.replicas.keep(l.hosts())
}

// probe asks a replica whether it is ready until the context ends.
func (l *Link) probe(ctx context.Context, host string) {
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	for failures := 0; ; {
		err := l.ask(ctx, host)
		if ctx.Err() != nil {
			return
		}
		if failures++; err == nil {
			failures = 0
		}
		if l.replicas.setUnwell(host, failures >= patience) {
			klog.InfoS("Probed a replica", "service", l.service, "replica", host, "ready", err == nil, "reason", err)
		}
		l.leaveIfUnwell()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// ask returns an error if a replica is not ready. One that does not say is.
func (l *Link) ask(ctx context.Context, host string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+host+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := l.replicas.RoundTrip(req)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // nothing is lost with an unread probe
	if fails(response.StatusCode) {
		return fmt.Errorf("/readyz answers %s", response.Status)
	}
	return nil
}

// fails reports whether a status says that a replica is not well.
func fails(status int) bool {
	return status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
}

// leaveIfUnwell leaves the replica that is asked first, if it is not ready and another is.
func (l *Link) leaveIfUnwell() {
	current := l.current.Load()
	if current == nil || !l.replicas.isUnwell(current.Host) {
		return
	}
	if next := l.inOrder(); len(next) > 0 && next[0].Host != current.Host {
		l.current.Store(next[0])
		l.replicas.leave(current.Host, "it is not ready")
	}
}
