// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/net/http2"
	"golang.org/x/net/netutil"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/console/signin"
	"github.com/tripod-k8s/tripod/internal/service/filewatch"
)

// maxTeamConnections is how many connections a console for a team has at once.
const maxTeamConnections = 1024

// TeamOptions are those of a console for a team.
type TeamOptions struct {
	signin.Options
	// BindAddress is that of the port, or empty for all addresses.
	BindAddress string
	SecurePort  int
	// CertFile and KeyFile are read again when they change.
	CertFile, KeyFile string
}

// NewTeamOptions returns the defaults.
func NewTeamOptions() *TeamOptions {
	return &TeamOptions{SecurePort: 8443, Options: signin.Options{
		API: &rest.Config{}, IdleTimeout: 30 * time.Minute, Lifetime: 12 * time.Hour,
	}}
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
}

// TeamServer is a console for a team that has its port.
type TeamServer struct {
	listener    net.Listener
	certificate *certificate
	server      *http.Server
}

// ListenForTeam takes the port. Serve must follow.
func ListenForTeam(ctx context.Context, options *TeamOptions) (*TeamServer, error) {
	if options.SecurePort < 0 || options.SecurePort > 65535 {
		return nil, fmt.Errorf("--secure-port is %d, want 0 to 65535", options.SecurePort)
	}
	guard, err := signin.New(options.Options)
	if err != nil {
		return nil, err
	}
	s := &TeamServer{certificate: &certificate{cert: options.CertFile, key: options.KeyFile}, server: newHTTPServer(guard)}
	if err := s.certificate.load(); err != nil {
		return nil, fmt.Errorf("--tls-cert-file and --tls-private-key-file: %w", err)
	}
	address := net.JoinHostPort(options.BindAddress, strconv.Itoa(options.SecurePort))
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot serve the console: %w", err)
	}
	s.listener = tls.NewListener(netutil.LimitListener(listener, maxTeamConnections), &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{http2.NextProtoTLS, "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.certificate.current.Load(), nil },
	})
	return s, nil
}

// Address is that of the port.
func (s *TeamServer) Address() string { return s.listener.Addr().String() }

// Serve serves the console until the context ends.
func (s *TeamServer) Serve(ctx context.Context) error {
	watching, stop := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.certificate.follow(watching)
	}()
	defer func() {
		stop()
		<-watched
	}()
	return serve(ctx, s.server, s.listener)
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
