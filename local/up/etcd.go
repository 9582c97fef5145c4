// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/client-go/transport"

	"github.com/tripod-k8s/tripod/base/storage/etcdversion"
)

// etcdTimeout bounds the wait for the answer of an etcd server.
const etcdTimeout = 5 * time.Second

// maxVersion is more than etcd says about its version.
const maxVersion = 4 << 10

// checkEtcds returns an error if a service is given an external etcd that cannot be used. Without this check the services
// would start and wait.
func checkEtcds(ctx context.Context, o *Options) error {
	config, err := transport.TLSConfigFor(&transport.Config{TLS: transport.TLSConfig{
		CAFile: o.EtcdCAFile, CertFile: o.EtcdCertFile, KeyFile: o.EtcdKeyFile,
	}})
	if err != nil {
		return fmt.Errorf("cannot use --etcd-cafile, --etcd-certfile and --etcd-keyfile: %w", err)
	}
	asks := newAsker(config)
	defer asks.close()
	for _, service := range o.services() {
		if err := asks.any(ctx, o.etcdServers(service)); err != nil {
			return fmt.Errorf("cannot use the etcd of %s: %w", service, err)
		}
	}
	for name, servers := range o.partitionEtcds() {
		if err := asks.any(ctx, servers); err != nil {
			return fmt.Errorf("cannot use the etcd of the partition %s: %w", name, err)
		}
	}
	return nil
}

// asker asks etcd servers whether they are there. etcd speaks HTTP/1.1 and HTTP/2, a proxy perhaps only the former, kine only the latter.
type asker struct {
	// either leaves the choice to a server with TLS. Without TLS, it speaks HTTP/1.1.
	either *http.Transport
	// http2 is for servers without TLS.
	http2 *http.Transport
}

func newAsker(config *tls.Config) *asker {
	http2 := &http.Protocols{}
	http2.SetUnencryptedHTTP2(true)
	return &asker{either: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}, http2: &http.Transport{Protocols: http2}}
}

func (a *asker) close() {
	a.either.CloseIdleConnections()
	a.http2.CloseIdleConnections()
}

// any returns nil if one of the etcd servers answers, or if the list is empty. Otherwise it returns what is wrong with the last one. A
// server that is too old ends the search: the others are of the same etcd.
func (a *asker) any(ctx context.Context, servers []string) error {
	var last error
	for _, server := range servers {
		err := answers(ctx, a.either, server)
		tooOld := errors.Is(err, etcdversion.ErrTooOld)
		if err != nil && !tooOld && strings.HasPrefix(server, "http://") && answers(ctx, a.http2, server) == nil {
			err = nil
		}
		if err == nil {
			return nil
		}
		last = fmt.Errorf("%s: %w", server, err)
		if tooOld {
			break
		}
	}
	return last
}

// answers asks an etcd server for its version, which must not be too old. Any other answer will do, because kine and proxies of etcd may
// not know the version.
func answers(ctx context.Context, connections *http.Transport, server string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/version", nil)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: connections, Timeout: etcdTimeout}
	response, err := client.Do(req)
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("closes the connection: perhaps it does not speak %s", req.URL.Scheme)
	}
	if outer := (*url.Error)(nil); errors.As(err, &outer) {
		return outer.Err
	}
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // it is only read
	var versions struct {
		Server string `json:"etcdserver"`
	}
	if json.NewDecoder(io.LimitReader(response.Body, maxVersion)).Decode(&versions) != nil {
		return nil // it reports no version
	}
	return etcdversion.CheckSupported(versions.Server)
}
