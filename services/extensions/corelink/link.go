// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package corelink

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/internal/servicetrust"
)

// Link knows the replicas of core, and which of them answered last. All clients made from it share that.
type Link struct {
	trust servicetrust.Options

	// servers are tried in this order. The list is never changed, and never empty.
	servers atomic.Pointer[[]*url.URL]
	// current is the server that answered last.
	current atomic.Pointer[url.URL]
	// reached is true once a server has answered.
	reached atomic.Bool
	// away is true while no server can be reached.
	away atomic.Bool
}

// New returns a link to the replicas of core at servers, which are tried in this order.
func New(servers []*url.URL, trust servicetrust.Options) *Link {
	l := &Link{trust: trust}
	l.SetServers(servers)
	return l
}

// SetServers says where the replicas of core are now. There must be one. What was begun with others goes on.
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

// Config returns a client configuration for core. It speaks Protobuf and has no rate limit of its own, as the loopback
// configuration of kube-apiserver. While no replica can be reached, requests wait until one can or their context ends.
func (l *Link) Config() *rest.Config {
	config := &rest.Config{
		Host: (*l.servers.Load())[0].String(),
		ContentConfig: rest.ContentConfig{
			ContentType: runtime.ContentTypeProtobuf,
		},
		TLSClientConfig: rest.TLSClientConfig{
			CAFile:   l.trust.CAFile,
			CertFile: l.trust.CertFile,
			KeyFile:  l.trust.KeyFile,
			// Every service may be on this host, with a certificate that says so.
			ServerName: servicetrust.ServerName("core"),
		},
		DisableCompression: true,
		QPS:                -1,
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &failover{link: l, next: next}
	})
	return config
}

// Name implements healthz.HealthChecker.
func (l *Link) Name() string {
	return "core"
}

// Check implements healthz.HealthChecker. It fails until core has answered for the first time, and never again: custom
// resources can be served while core is away.
func (l *Link) Check(*http.Request) error {
	if l.reached.Load() {
		return nil
	}
	return errors.New("no replica of core has answered yet")
}

func (l *Link) noteReached(server *url.URL) {
	l.current.Store(server)
	l.reached.Store(true)
	if l.away.Swap(false) {
		klog.InfoS("Core can be reached", "server", server.Host)
	}
}

func (l *Link) noteAway(err error) {
	if !l.away.Swap(true) {
		klog.InfoS("Waiting for core", "servers", strings.Join(l.hosts(), ","), "reason", err.Error())
	}
}

func (l *Link) hosts() []string {
	var hosts []string
	for _, server := range *l.servers.Load() {
		hosts = append(hosts, server.Host)
	}
	return hosts
}
