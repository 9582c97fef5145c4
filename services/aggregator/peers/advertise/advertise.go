// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package advertise makes this aggregator an endpoint of the kubernetes Service. It sends every replica of core its address
// (tripod.endpoints.v1) for as long as it serves.
package advertise

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/tripod-k8s/tripod/base/hop/follow"
	endpointsv1 "github.com/tripod-k8s/tripod/proto/endpoints/v1"
)

// heartbeat is the time between two messages to a replica of core.
const heartbeat = 2 * time.Second

// Config says what to advertise, and to whom.
type Config struct {
	// Address is where other machines can reach this aggregator.
	Address netip.AddrPort
	// Cores returns the addresses (host:port) at which the replicas of core serve gRPC.
	Cores func() []string
	// Subscribe makes the source call a function when these addresses may have changed. The function must not block.
	Subscribe func(func())
	// Dial returns a connection to an address, without waiting until it is connected.
	Dial func(address string) (follow.Conn, error)
}

// Advertiser sends all replicas of core the address of this aggregator.
type Advertiser struct {
	config  Config
	changed chan struct{}
	// leaving ends when the aggregator is about to stop.
	leaving context.Context
	leave   context.CancelFunc

	// updating is held while the advertiser updates the list of replicas.
	updating sync.Mutex
	cores    *follow.Each
}

// New returns an advertiser. It does nothing before Run.
func New(config Config) *Advertiser {
	leaving, leave := context.WithCancel(context.Background())
	a := &Advertiser{config: config, changed: make(chan struct{}, 1), leaving: leaving, leave: leave}
	a.cores = follow.NewEach(a.advertise)
	config.Subscribe(func() {
		select {
		case a.changed <- struct{}{}:
		default:
		}
	})
	return a
}

// Run advertises to every replica of core until the context ends or Leave is called.
func (a *Advertiser) Run(ctx context.Context) {
	for {
		a.update(ctx)
		select {
		case <-ctx.Done():
			return
		case <-a.leaving.Done():
			return
		case <-a.changed:
		}
	}
}

// update starts calls to new replicas, and ends the calls to removed ones.
func (a *Advertiser) update(ctx context.Context) {
	a.updating.Lock()
	defer a.updating.Unlock()
	if a.leaving.Err() == nil {
		a.cores.Set(ctx, a.config.Cores())
	}
}

// Leave announces that the aggregator is about to stop. It returns when all replicas of core have removed the address, or when the context
// ends.
func (a *Advertiser) Leave(ctx context.Context) {
	a.leave()
	a.updating.Lock()   // wait for an update in progress; later ones do nothing
	a.updating.Unlock() //nolint:staticcheck // only waits
	defer context.AfterFunc(ctx, func() { a.cores.Set(ctx, nil) })()
	a.cores.Wait()
}

// advertise advertises to one replica until the context ends, or until the replica has learned that the aggregator leaves.
func (a *Advertiser) advertise(ctx context.Context, core string) {
	// An aggregator that leaves makes no new calls. It closes the current one in order.
	calling, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(a.leaving, stop)()
	stream := follow.Stream{
		Name:      "address of this aggregator " + a.config.Address.String(),
		Addresses: func() []string { return []string{core} },
		Dial:      a.config.Dial,
		Run:       func(_ context.Context, session *follow.Session) error { return a.call(ctx, session) },
	}
	stream.Follow(calling)
}

// call makes one call. It returns when the call ends, or when it has closed the call because the aggregator leaves.
func (a *Advertiser) call(ctx context.Context, session *follow.Session) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	call, err := endpointsv1.NewEndpointsClient(session.Conn).Advertise(ctx)
	if err != nil {
		return err
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	message := &endpointsv1.AdvertiseRequest{Address: a.config.Address.Addr().String(), Port: uint32(a.config.Address.Port())}
	for {
		if call.Send(message) != nil {
			// The response has the reason.
			return call.RecvMsg(new(endpointsv1.AdvertiseResponse))
		}
		select {
		case <-beat.C:
			session.Alive() // a replica that rejects the call does so at once
		case <-call.Context().Done():
			return call.RecvMsg(new(endpointsv1.AdvertiseResponse))
		case <-a.leaving.Done():
			_, err := call.CloseAndRecv()
			return err
		}
	}
}
