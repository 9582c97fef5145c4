// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"k8s.io/client-go/kubernetes/fake"

	endpointsv1 "github.com/tripod-k8s/tripod/proto/endpoints/v1"
)

// call is the server's end of a call.
type call struct {
	grpc.ClientStreamingServer[endpointsv1.AdvertiseRequest, endpointsv1.AdvertiseResponse]
	ctx context.Context
	// sent is what the aggregator sends. It is closed when it half-closes.
	sent     chan *endpointsv1.AdvertiseRequest
	answered bool
}

func (c *call) Context() context.Context { return c.ctx }

func (c *call) Recv() (*endpointsv1.AdvertiseRequest, error) {
	select {
	case message, open := <-c.sent:
		if !open {
			return nil, io.EOF
		}
		return message, nil
	case <-c.ctx.Done():
		return nil, c.ctx.Err()
	}
}

func (c *call) SendAndClose(*endpointsv1.AdvertiseResponse) error {
	c.answered = true
	return nil
}

func advertise(t *testing.T, s *Service, address string) (c *call, lose func(), ended <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	c = &call{ctx: ctx, sent: make(chan *endpointsv1.AdvertiseRequest)}
	end := make(chan error, 1)
	go func() {
		end <- s.Advertise(c)
		cancel() // as gRPC does
	}()
	c.sent <- &endpointsv1.AdvertiseRequest{Address: address, Port: 6443}
	synctest.Wait()
	return c, cancel, end
}

func TestAnAggregatorIsAnEndpointUntilItStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, l := fake.NewClientset(), leases{}
		r := newLeased(client, l, 0)
		tick(t, r)
		s := NewService(r)
		staying, _, stayed := advertise(t, s, "192.0.2.1")
		stopping, _, stopped := advertise(t, s, "192.0.2.2")
		expect(t, client, 6443, "192.0.2.1", "192.0.2.2")

		close(stopping.sent)
		if err := <-stopped; err != nil || !stopping.answered {
			t.Errorf("the call of an aggregator that stops ends with %v, answered: %t", err, stopping.answered)
		}
		expect(t, client, 6443, "192.0.2.1")

		// One that is lost stays while its lease lasts.
		_, lose, lost := advertise(t, s, "192.0.2.3")
		lose()
		if err := <-lost; err == nil {
			t.Error("the call of an aggregator that is lost ends well")
		}
		staying.sent <- &endpointsv1.AdvertiseRequest{}
		tick(t, r)
		expect(t, client, 6443, "192.0.2.1", "192.0.2.3")

		// Silence is the same.
		began := time.Now()
		if err := <-stayed; status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("a silent call ends with %v", err)
		}
		assert.Equal(t, silence, time.Since(began), "it was given up after")
		delete(l, "192.0.2.1")
		tick(t, r)
		assert.False(t, l["192.0.2.1"], "the lease of a silent aggregator is renewed")
	})
}

func TestCallsEndWhenCoreStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewService(newLeased(fake.NewClientset(), leases{}, 0))
		_, _, ended := advertise(t, s, "192.0.2.1")
		s.Stop()
		s.Stop()
		if err := <-ended; status.Code(err) != codes.Unavailable {
			t.Errorf("it ends with %v", err)
		}
	})
}

func TestAddressesAreRefusedWhereEndpointsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, address := range []string{"127.0.0.1", "0.0.0.0", "example.com", ""} {
			_, _, ended := advertise(t, NewService(newLeased(fake.NewClientset(), leases{}, 0)), address)
			if err := <-ended; status.Code(err) != codes.InvalidArgument {
				t.Errorf("%q: the call ends with %v", address, err)
			}
		}
		// --endpoint-reconciler-type=none
		c, _, ended := advertise(t, NewService(nil), "127.0.0.1")
		close(c.sent)
		if err := <-ended; err != nil || !c.answered {
			t.Errorf("the call ends with %v, answered: %t", err, c.answered)
		}
	})
}
