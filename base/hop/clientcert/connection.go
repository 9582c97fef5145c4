// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package clientcert

import (
	"crypto/tls"
	"runtime"
	"sync"
	"weak"
)

// perConnection keeps a value for each TLS connection of an HTTP server while the connection lives. net/http gives all requests of a
// connection the same *tls.ConnectionState, and each connection its own.
type perConnection[T any] struct {
	values sync.Map // of *T by weak.Pointer[tls.ConnectionState]
}

func (p *perConnection[T]) get(connection *tls.ConnectionState) *T {
	if value, ok := p.values.Load(weak.Make(connection)); ok {
		return value.(*T)
	}
	return nil
}

func (p *perConnection[T]) set(connection *tls.ConnectionState, value *T) {
	key := weak.Make(connection)
	if _, had := p.values.Swap(key, value); !had {
		runtime.AddCleanup(connection, func(key weak.Pointer[tls.ConnectionState]) { p.values.Delete(key) }, key)
	}
}
