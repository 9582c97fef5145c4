// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package maintenance

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"
)

const (
	// noticeTime is how long a person waits for etcd without a word.
	noticeTime = time.Second
	// dialTimeout is how long an endpoint may take to accept a connection.
	dialTimeout = time.Second
)

// saySoon calls waiting once if etcd takes long. The function that it returns ends that, and must be called.
func saySoon(ctx context.Context, endpoints []string, waiting func(line string)) (stop func()) {
	if waiting == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-time.After(noticeTime):
			waiting("waiting for etcd at " + strings.Join(endpoints, ","))
		case <-ctx.Done():
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// unreachable returns why no endpoint accepts connections, or nil if one does. The client of etcd says only that its time is over.
func unreachable(ctx context.Context, endpoints []string) error {
	dialer := net.Dialer{Timeout: dialTimeout}
	var problems []error
	for _, endpoint := range endpoints {
		address := endpoint
		if _, after, ok := strings.Cut(endpoint, "://"); ok {
			address = after
		}
		conn, err := dialer.DialContext(ctx, "tcp", strings.TrimSuffix(address, "/"))
		if err == nil {
			return conn.Close()
		}
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}
