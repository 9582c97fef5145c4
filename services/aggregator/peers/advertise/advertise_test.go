// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package advertise

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tripod-k8s/tripod/base/hop/follow"
	endpointsv1 "github.com/tripod-k8s/tripod/proto/endpoints/v1"
)

// core is a replica of core that records what it receives.
type core struct {
	endpointsv1.UnimplementedEndpointsServer
	address string
	server  *grpc.Server
	// came gets the address of each call. ended gets the end of each call: nil if the aggregator half-closed it.
	came  chan *endpointsv1.AdvertiseRequest
	ended chan error
	// answers is closed when the replica may answer.
	answers chan struct{}
}

func startCore(t *testing.T) *core {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &core{
		address: listener.Addr().String(), server: grpc.NewServer(),
		came: make(chan *endpointsv1.AdvertiseRequest, 10), ended: make(chan error, 10), answers: make(chan struct{}),
	}
	endpointsv1.RegisterEndpointsServer(c.server, c)
	served := make(chan error, 1)
	go func() { served <- c.server.Serve(listener) }()
	t.Cleanup(func() {
		c.server.Stop()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	return c
}

func (c *core) Advertise(call grpc.ClientStreamingServer[endpointsv1.AdvertiseRequest, endpointsv1.AdvertiseResponse]) error {
	first, err := call.Recv()
	if err != nil {
		return err
	}
	c.came <- first
	for err == nil {
		_, err = call.Recv()
	}
	if !errors.Is(err, io.EOF) {
		c.ended <- err
		return err
	}
	c.ended <- nil
	select {
	case <-c.answers:
	case <-call.Context().Done():
	}
	return call.SendAndClose(&endpointsv1.AdvertiseResponse{})
}

// backend knows where the replicas are.
type backend struct {
	mu        sync.Mutex
	addresses []string
	notify    func()
}

func (b *backend) set(addresses ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.addresses = addresses
	if b.notify != nil {
		b.notify()
	}
}

func (b *backend) get() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.addresses
}

func start(t *testing.T, cores ...*core) (*Advertiser, *backend) {
	t.Helper()
	b := &backend{}
	var addresses []string
	for _, c := range cores {
		addresses = append(addresses, c.address)
	}
	b.set(addresses...)
	a := New(Config{
		Address:   netip.MustParseAddrPort("192.0.2.1:6443"),
		Cores:     b.get,
		Subscribe: func(notify func()) { b.notify = notify },
		Dial: func(address string) (follow.Conn, error) {
			return grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { a.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		a.cores.Wait()
	})
	return a, b
}

func TestEveryCoreLearnsOfItAndIsAskedToRemoveIt(t *testing.T) {
	one, two := startCore(t), startCore(t)
	a, b := start(t, one)
	if reported := <-one.came; reported.GetAddress() != "192.0.2.1" || reported.GetPort() != 6443 {
		t.Errorf("core received %v", reported)
	}
	b.set(one.address, two.address)
	<-two.came

	left := make(chan struct{})
	go func() {
		defer close(left)
		a.Leave(t.Context())
	}()
	for _, c := range []*core{one, two} {
		if err := <-c.ended; err != nil {
			t.Errorf("the call ended with %v and not because the aggregator leaves", err)
		}
	}
	close(one.answers)
	select {
	case <-left:
		t.Error("it left before all had answered")
	default:
	}
	close(two.answers)
	<-left
	b.set(one.address, two.address, startCore(t).address) // the advertiser calls none any more
}

func TestACoreThatIsGoneGetsNoFarewell(t *testing.T) {
	one := startCore(t)
	_, b := start(t, one)
	<-one.came
	b.set()
	if err := <-one.ended; err == nil {
		t.Error("the aggregator ended the call to core")
	}
}

func TestACoreThatStartsAgainLearnsItAgain(t *testing.T) {
	one := startCore(t)
	start(t, one)
	<-one.came
	one.server.Stop()
	if err := <-one.ended; err == nil {
		t.Error("the call ended well")
	}
	again := &core{came: make(chan *endpointsv1.AdvertiseRequest, 1), ended: make(chan error, 1), server: grpc.NewServer()}
	endpointsv1.RegisterEndpointsServer(again.server, again)
	listener, err := net.Listen("tcp", one.address)
	require.NoError(t, err)
	go func() { _ = again.server.Serve(listener) }()
	t.Cleanup(again.server.Stop)
	<-again.came
}

func TestLeavingDoesNotWaitLongerThanItsLimit(t *testing.T) {
	one := startCore(t)
	a, _ := start(t, one)
	<-one.came
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel() // the replica does not answer
		assert.NoError(t, <-one.ended)
	}()
	a.Leave(ctx)
}
