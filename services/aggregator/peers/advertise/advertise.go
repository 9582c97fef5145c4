// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package advertise makes this aggregator an endpoint of the kubernetes Service: it tells every replica of core where it is
// (tripod.endpoints.v1) for as long as it serves.
package advertise

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/tripod-k8s/tripod/internal/hop/follow"
	endpointsv1 "github.com/tripod-k8s/tripod/proto/endpoints/v1"
)

// signOfLife is how often the aggregator tells every replica of core.
const signOfLife = 2 * time.Second

// Config says what to tell, and to whom.
type Config struct {
	// Address is where other machines reach this aggregator.
	Address netip.AddrPort
	// Cores returns the addresses (host:port) at which the replicas of core serve gRPC.
	Cores func() []string
	// Subscribe calls the function when these may have changed. It must not block.
	Subscribe func(func())
	// Dial returns a connection to an address. It does not wait for it.
	Dial func(address string) (follow.Conn, error)
}

// Advertiser tells all replicas of core.
type Advertiser struct {
	config  Config
	changed chan struct{}
	// leaving ends when the aggregator is about to stop.
	leaving context.Context
	leave   context.CancelFunc

	// updating is held while the advertiser finds out which replicas to tell.
	updating sync.Mutex
	cores    *follow.Each
}

// New returns an advertiser that does nothing before Run.
func New(config Config) *Advertiser {
	leaving, leave := context.WithCancel(context.Background())
	a := &Advertiser{config: config, changed: make(chan struct{}, 1), leaving: leaving, leave: leave}
	a.cores = follow.NewEach(a.tell)
	config.Subscribe(func() {
		select {
		case a.changed <- struct{}{}:
		default:
		}
	})
	return a
}

// Run tells every replica of core until the context ends or Leave is called.
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

// update calls new replicas, and ends the calls to replicas that are gone.
func (a *Advertiser) update(ctx context.Context) {
	a.updating.Lock()
	defer a.updating.Unlock()
	if a.leaving.Err() == nil {
		a.cores.Set(ctx, a.config.Cores())
	}
}

// Leave says that the aggregator is about to stop, and returns when all replicas of core have removed it, or with the context.
func (a *Advertiser) Leave(ctx context.Context) {
	a.leave()
	a.updating.Lock()   // whoever updates now has begun before, and whoever comes later does nothing
	a.updating.Unlock() //nolint:staticcheck // nothing else is to be done under it
	defer context.AfterFunc(ctx, func() { a.cores.Set(ctx, nil) })()
	a.cores.Wait()
}

// tell tells one replica until the context ends, or it has heard that the aggregator leaves.
func (a *Advertiser) tell(ctx context.Context, core string) {
	// An aggregator that leaves makes no more calls. The last one ends in order.
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

// call makes one call, and returns when it ends or has ended because the aggregator leaves.
func (a *Advertiser) call(ctx context.Context, session *follow.Session) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	call, err := endpointsv1.NewEndpointsClient(session.Conn).Advertise(ctx)
	if err != nil {
		return err
	}
	beat := time.NewTicker(signOfLife)
	defer beat.Stop()
	message := &endpointsv1.AdvertiseRequest{Address: a.config.Address.Addr().String(), Port: uint32(a.config.Address.Port())}
	for {
		if call.Send(message) != nil {
			// The answer says why.
			return call.RecvMsg(new(endpointsv1.AdvertiseResponse))
		}
		select {
		case <-beat.C:
			session.Alive() // core answers a call that it refuses at once
		case <-call.Context().Done():
			return call.RecvMsg(new(endpointsv1.AdvertiseResponse))
		case <-a.leaving.Done():
			_, err := call.CloseAndRecv()
			return err
		}
	}
}
