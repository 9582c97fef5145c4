// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package split

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// answerTimeout is how long an etcd may take for its first answer.
const answerTimeout = 10 * time.Second

// Etcd says how to reach an etcd.
type Etcd struct {
	// Flag is the flag by which the user names it.
	Flag string
	// Servers are URLs.
	Servers []string
	// CAFile, CertFile and KeyFile secure the connection.
	CAFile, CertFile, KeyFile string

	// id identifies the etcd cluster.
	id uint64
}

// dial connects, and reads the ID of the cluster.
func (e *Etcd) dial(ctx context.Context) (*clientv3.Client, error) {
	answering, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if err := e.reachable(answering); err != nil {
		return nil, err
	}
	config := clientv3.Config{Endpoints: e.Servers, Logger: zap.NewNop()}
	if e.CAFile != "" || e.CertFile != "" || e.KeyFile != "" {
		files := transport.TLSInfo{TrustedCAFile: e.CAFile, CertFile: e.CertFile, KeyFile: e.KeyFile}
		tlsConfig, err := files.ClientConfig()
		if err != nil {
			return nil, fmt.Errorf("cannot use the certificates for --%s: %w", e.Flag, err)
		}
		config.TLS = tlsConfig
	}
	client, err := clientv3.New(config)
	if err != nil {
		return nil, fmt.Errorf("cannot use --%s=%s: %w", e.Flag, strings.Join(e.Servers, ","), err)
	}
	answer, err := client.Get(answering, "/")
	if err != nil {
		client.Close() //nolint:errcheck // it was of no use
		if errors.Is(err, rpctypes.ErrPermissionDenied) || errors.Is(err, rpctypes.ErrUserEmpty) {
			return nil, fmt.Errorf("--%s: only the user root of etcd has the rights: give its certificate by --%[1]s-certfile and "+
				"--%[1]s-keyfile: %[2]w", e.Flag, err)
		}
		return nil, fmt.Errorf("--%s: etcd at %s does not answer (certificates?): %w", e.Flag, strings.Join(e.Servers, ","), err)
	}
	e.id = answer.Header.GetClusterId()
	return client, nil
}

// reachable returns why no server can be reached. The client itself would retry silently.
func (e *Etcd) reachable(ctx context.Context) error {
	var err error
	for _, server := range e.Servers {
		u, parseErr := url.Parse(server)
		if parseErr != nil || u.Host == "" {
			return fmt.Errorf("--%s: %q is not a URL such as https://127.0.0.1:2379", e.Flag, server)
		}
		var connection net.Conn
		if connection, err = (&net.Dialer{}).DialContext(ctx, "tcp", u.Host); err == nil {
			return connection.Close()
		}
	}
	return fmt.Errorf("--%s: no etcd can be reached: %w", e.Flag, err)
}

func revision(ctx context.Context, client *clientv3.Client) (int64, error) {
	answer, err := client.Get(ctx, "/")
	if err != nil {
		return 0, fmt.Errorf("cannot read the revision of etcd: %w", err)
	}
	return answer.Header.GetRevision(), nil
}
