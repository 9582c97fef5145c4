// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net"

	genericapiserver "k8s.io/apiserver/pkg/server"
)

// advertisePort makes serving report port as the port on which it listens, until restore is called. Building the control plane reads that
// port once, for the kubernetes Service and its endpoints. Clients must find the aggregator there.
func advertisePort(serving *genericapiserver.SecureServingInfo, port int) (restore func()) {
	listener := serving.Listener
	address, ok := listener.Addr().(*net.TCPAddr)
	if port == 0 || !ok {
		return func() {}
	}
	advertised := *address
	advertised.Port = port
	serving.Listener = advertisedListener{Listener: listener, address: &advertised}
	return func() { serving.Listener = listener }
}

type advertisedListener struct {
	net.Listener
	address net.Addr
}

func (l advertisedListener) Addr() net.Addr {
	return l.address
}
