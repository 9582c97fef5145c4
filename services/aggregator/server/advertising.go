// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/hop/follow"
	"github.com/tripod-k8s/tripod/base/hop/rpc"
	"github.com/tripod-k8s/tripod/services/aggregator/peers/advertise"
)

const (
	// readyInterval is how often it is looked whether this aggregator is ready to be an endpoint, as kube-apiserver does.
	readyInterval = 100 * time.Millisecond
	// withdrawTimeout bounds how long core may take to remove this aggregator from the endpoints: it stops even without that.
	withdrawTimeout = 5 * time.Second
	// sharedPortCheck is the name of the check whether connections at the shared port come here.
	sharedPortCheck = "shared-port"
)

// installAdvertising makes this aggregator an endpoint of the kubernetes Service when it is ready.
func (s *Server) installAdvertising() (*advertise.Advertiser, error) {
	generic := &s.generic.Config
	ip, ok := netip.AddrFromSlice(generic.PublicAddress)
	if !ok {
		return nil, fmt.Errorf("--advertise-address: %s is no IP address", generic.PublicAddress)
	}
	port, err := s.publicPort()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(s.api.LoopbackClientConfig)
	if err != nil {
		return nil, err
	}
	core := s.core
	advertiser := advertise.New(advertise.Config{
		Address:   netip.AddrPortFrom(ip.Unmap(), port),
		Cores:     core.grpcAddresses,
		Subscribe: core.Subscribe,
		Dial: func(address string) (follow.Conn, error) {
			return rpc.Dial(address, core.Name(), &s.options.ServiceTrust, generic.TracerProvider)
		},
	})
	s.run("advertise", func(ctx context.Context) {
		go func() {
			if untilReady(ctx, client) == nil && s.joinSharedPort(ctx) == nil {
				advertiser.Run(ctx)
			}
		}()
	})
	return advertiser, nil
}

// publicPort returns the port at which clients reach this aggregator.
func (s *Server) publicPort() (uint16, error) {
	if shared, err := s.options.SharedPort(); shared != 0 || err != nil {
		return shared, err
	}
	_, port, err := s.generic.SecureServing.HostPort()
	if err != nil {
		return 0, fmt.Errorf("address of the listener: %w", err)
	}
	return uint16(port), nil
}

// joinSharedPort makes connections at the shared port come here, if there is such a port.
func (s *Server) joinSharedPort(ctx context.Context) error {
	if s.shared == nil {
		return nil
	}
	err := s.shared.Join(ctx)
	if err != nil && ctx.Err() == nil {
		klog.ErrorS(err, "This aggregator gets no connections at --shared-bind-address")
	}
	return err
}

func untilReady(ctx context.Context, client kubernetes.Interface) error {
	return wait.PollUntilContextCancel(ctx, readyInterval, true, func(ctx context.Context) (bool, error) {
		code := 0
		client.CoreV1().RESTClient().Get().AbsPath("/readyz").Param("exclude", sharedPortCheck).Do(ctx).StatusCode(&code)
		return code == http.StatusOK, nil
	})
}

// withdraw ends being an endpoint, before anything else of a shutdown: clients are to come no more.
func withdraw(advertised *advertise.Advertiser) {
	ctx, cancel := context.WithTimeout(context.Background(), withdrawTimeout)
	defer cancel()
	advertised.Leave(ctx)
	if ctx.Err() != nil {
		klog.InfoS("Stopping without having been removed from the endpoints of the kubernetes Service", "after", withdrawTimeout)
	}
}
