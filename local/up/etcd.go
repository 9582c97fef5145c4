// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"k8s.io/client-go/transport"
)

// etcdTimeout bounds the wait for the answer of an etcd server.
const etcdTimeout = 5 * time.Second

// checkEtcds returns an error if a service is given an external etcd that cannot be used. Without this check the services
// would start and wait.
func checkEtcds(ctx context.Context, o *Options) error {
	config, err := transport.TLSConfigFor(&transport.Config{TLS: transport.TLSConfig{
		CAFile: o.EtcdCAFile, CertFile: o.EtcdCertFile, KeyFile: o.EtcdKeyFile,
	}})
	if err != nil {
		return fmt.Errorf("cannot use --etcd-cafile, --etcd-certfile and --etcd-keyfile: %w", err)
	}
	connections := &http.Transport{TLSClientConfig: config}
	defer connections.CloseIdleConnections()
	client := &http.Client{Transport: connections, Timeout: etcdTimeout}
	for _, service := range o.services() {
		if err := anyAnswers(ctx, client, o.etcdServers(service)); err != nil {
			return fmt.Errorf("cannot use the etcd of %s: %w", service, err)
		}
	}
	for name, servers := range o.partitionEtcds() {
		if err := anyAnswers(ctx, client, servers); err != nil {
			return fmt.Errorf("cannot use the etcd of the partition %s: %w", name, err)
		}
	}
	return nil
}

// anyAnswers returns nil if one of the etcd servers answers, or if the list is empty. Otherwise it returns what is wrong with
// the last one.
func anyAnswers(ctx context.Context, client *http.Client, servers []string) error {
	var last error
	for _, server := range servers {
		err := answers(ctx, client, server)
		if err == nil {
			return nil
		}
		last = fmt.Errorf("%s: %w", server, err)
	}
	return last
}

// answers asks an etcd server for its version. Any answer will do, because a proxy of etcd may not know the version.
func answers(ctx context.Context, client *http.Client, server string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/version", nil)
	if err != nil {
		return err
	}
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
	return response.Body.Close()
}
