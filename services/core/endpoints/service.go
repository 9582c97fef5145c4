// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/hop/attention"
	endpointsv1 "github.com/tripod-k8s/tripod/proto/endpoints/v1"
)

// silence is how long core waits for a message of an aggregator, which sends one every 2 seconds.
const silence = 10 * time.Second

var errSilent = errors.New("it sent nothing")

// Service serves tripod.endpoints.v1.
type Service struct {
	endpointsv1.UnimplementedEndpointsServer
	// reconciler is nil if core does not keep the endpoints.
	reconciler *Reconciler
	stopped    chan struct{}
	stop       func()
}

// NewService returns a service that reports aggregators to a reconciler. Without a reconciler it only listens.
func NewService(reconciler *Reconciler) *Service {
	stopped := make(chan struct{})
	return &Service{reconciler: reconciler, stopped: stopped, stop: sync.OnceFunc(func() { close(stopped) })}
}

// Register makes a gRPC server serve it.
func (s *Service) Register(server grpc.ServiceRegistrar) {
	endpointsv1.RegisterEndpointsServer(server, s)
}

// Stop ends all calls.
func (s *Service) Stop() { s.stop() }

// Advertise implements endpointsv1.EndpointsServer.
func (s *Service) Advertise(call grpc.ClientStreamingServer[endpointsv1.AdvertiseRequest, endpointsv1.AdvertiseResponse]) error {
	first, err := call.Recv()
	if err != nil {
		return err
	}
	if s.reconciler == nil {
		if err := s.listen(call); err != nil {
			return err
		}
		return call.SendAndClose(&endpointsv1.AdvertiseResponse{})
	}
	address, err := addressOf(first)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	if err := s.reconciler.Add(address); err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	klog.InfoS("An aggregator is an endpoint of the kubernetes Service", "address", address)
	if err := s.listen(call); err != nil {
		klog.InfoS("An aggregator is lost, and is no endpoint of the kubernetes Service when its lease ends", "address", address, "err", err)
		s.reconciler.Forget(address)
		return err
	}
	if err := s.reconciler.Remove(address); err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	klog.InfoS("An aggregator stops and is no endpoint of the kubernetes Service", "address", address)
	return call.SendAndClose(&endpointsv1.AdvertiseResponse{})
}

// listen returns nil when the aggregator says that it stops, and an error when the aggregator is lost or core stops.
func (s *Service) listen(call grpc.ClientStreamingServer[endpointsv1.AdvertiseRequest, endpointsv1.AdvertiseResponse]) error {
	ctx, cancel := context.WithCancelCause(call.Context())
	defer cancel(nil)
	watchdog := attention.AfterFunc(silence, func() time.Duration {
		cancel(errSilent)
		return 0
	})
	defer watchdog.Stop()
	ended := make(chan error, 1)
	go func() {
		for {
			_, err := call.Recv()
			if err != nil {
				ended <- err
				return
			}
			watchdog.Reset(silence)
		}
	}()
	select {
	case err := <-ended:
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	case <-ctx.Done(): // ends Recv, too, with the return of the handler
		return status.Error(codes.DeadlineExceeded, context.Cause(ctx).Error())
	case <-s.stopped:
		return status.Error(codes.Unavailable, errStopped.Error())
	}
}

func addressOf(request *endpointsv1.AdvertiseRequest) (netip.AddrPort, error) {
	ip, err := netip.ParseAddr(request.GetAddress())
	if err != nil {
		return netip.AddrPort{}, err
	}
	if request.GetPort() > 65535 {
		return netip.AddrPort{}, fmt.Errorf("port: %d is none", request.GetPort())
	}
	address := netip.AddrPortFrom(ip.Unmap(), uint16(request.GetPort()))
	return address, Validate(address)
}
