// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/base/service/filewatch"
	"github.com/tripod-k8s/tripod/console/connections"
	"github.com/tripod-k8s/tripod/console/signin"
)

// Bounds of the connections of a console for a team. A network has more of them than requests without a session can keep in use.
const (
	maxTeamConnections      = 1024
	maxConnectionsOfNetwork = 128
	maxProbeConnections     = 64
	maxProbesOfNetwork      = 16
)

// TeamOptions are those of a console for a team.
type TeamOptions struct {
	signin.Options
	// BindAddress is that of the port, or empty for all addresses.
	BindAddress string
	SecurePort  int
	// CertFile and KeyFile are read again when they change.
	CertFile, KeyFile string
	// Probes is where probes are answered. It is a port of its own, because browsers can take all connections of the other one.
	Probes addresses.BindFlag
}

// NewTeamOptions returns the defaults.
func NewTeamOptions() *TeamOptions {
	return &TeamOptions{
		SecurePort: 8443, Options: signin.Options{API: &rest.Config{}, IdleTimeout: 30 * time.Minute, Lifetime: 12 * time.Hour},
		Probes: addresses.BindFlag{
			Name: "probe-bind-address", Usage: "address (host:port) that serves /livez and /readyz over plain HTTP, for probes; empty means none",
		},
	}
}

// AddFlags adds the flags of `tripod console serve`.
func (o *TeamOptions) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.API.Host, "server", o.API.Host, "URL of the API server with search")
	fs.StringVar(&o.API.CAFile, "certificate-authority", o.API.CAFile, "authority of its certificate; empty means the system's")
	fs.StringSliceVar(&o.Hosts, "host", o.Hosts, "host by which browsers reach the console, with its port unless that is 443; repeatable")
	fs.StringVar(&o.BindAddress, "bind-address", o.BindAddress, "address to listen at; empty means all")
	fs.IntVar(&o.SecurePort, "secure-port", o.SecurePort, "port to listen at; 0 means any that is free")
	fs.StringVar(&o.CertFile, "tls-cert-file", o.CertFile, "certificate of the console; it is loaded again when it changes")
	fs.StringVar(&o.KeyFile, "tls-private-key-file", o.KeyFile, "key of that certificate")
	fs.StringVar(&o.OIDC.IssuerURL, "oidc-issuer-url", o.OIDC.IssuerURL,
		"issuer at which users sign in; the API server must accept its tokens")
	fs.StringVar(&o.OIDC.ClientID, "oidc-client-id", o.OIDC.ClientID, "client of the console, for which the API server accepts tokens")
	fs.StringVar(&o.OIDC.ClientSecretFile, "oidc-client-secret-file", o.OIDC.ClientSecretFile,
		"file with the secret of that client; empty means a public client")
	fs.StringVar(&o.OIDC.CAFile, "oidc-ca-file", o.OIDC.CAFile, "authority of the issuer's certificate; empty means the system's")
	fs.StringSliceVar(&o.OIDC.Scopes, "oidc-scopes", o.OIDC.Scopes,
		"scopes to ask for besides openid, such as email,groups,offline_access")
	fs.DurationVar(&o.IdleTimeout, "session-idle-timeout", o.IdleTimeout, "time without requests after which a session ends")
	fs.DurationVar(&o.Lifetime, "session-lifetime", o.Lifetime, "time after which a session ends")
	o.Probes.AddFlags(fs)
}

// TeamServer is a console for a team that has its ports.
type TeamServer struct {
	listener    net.Listener
	certificate *certificate
	server      *http.Server
	probes      *probes
}

// ListenForTeam takes the ports. Serve must follow.
func ListenForTeam(ctx context.Context, options *TeamOptions) (*TeamServer, error) {
	if options.SecurePort < 0 || options.SecurePort > 65535 {
		return nil, fmt.Errorf("--secure-port is %d, want 0 to 65535", options.SecurePort)
	}
	if err := errors.Join(options.Probes.Validate()...); err != nil {
		return nil, err
	}
	guard, err := signin.New(options.Options)
	if err != nil {
		return nil, err
	}
	s := &TeamServer{certificate: &certificate{cert: options.CertFile, key: options.KeyFile}, server: newHTTPServer(guard)}
	s.server.ConnContext = connections.Context
	if err := s.certificate.load(); err != nil {
		return nil, fmt.Errorf("--tls-cert-file and --tls-private-key-file: %w", err)
	}
	address := net.JoinHostPort(options.BindAddress, strconv.Itoa(options.SecurePort))
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot serve the console: %w", err)
	}
	if s.probes, err = listenForProbes(&options.Probes); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	s.listener = tls.NewListener(connections.Listen(listener, maxConnectionsOfNetwork, maxTeamConnections), &tls.Config{
		// Without HTTP/2, a connection has one request, so the bound of connections is one of requests, too.
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.certificate.current.Load(), nil },
	})
	return s, nil
}

// Address is that of the port for browsers.
func (s *TeamServer) Address() string { return s.listener.Addr().String() }

// Serve serves the console until the context ends.
func (s *TeamServer) Serve(ctx context.Context) error {
	beside, stop := context.WithCancel(context.WithoutCancel(ctx)) // probes are answered until the last page has been sent
	var running errgroup.Group
	running.Go(func() error {
		s.certificate.follow(beside)
		return nil
	})
	running.Go(func() error { return s.probes.serve(beside, func() bool { return ctx.Err() == nil }) })
	err := serve(ctx, s.server, s.listener)
	stop()
	return errors.Join(err, running.Wait())
}

// certificate is that of two files.
type certificate struct {
	cert, key string
	current   atomic.Pointer[tls.Certificate]
}

func (c *certificate) load() error {
	loaded, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err == nil {
		c.current.Store(&loaded)
	}
	return err
}

// follow loads the files when they change. If only one has changed yet, the certificate stays.
func (c *certificate) follow(ctx context.Context) {
	filewatch.New(c.cert, c.key).Run(ctx, func() {
		if err := c.load(); err != nil {
			klog.ErrorS(err, "The certificate has changed, and cannot be loaded")
		}
	})
}
