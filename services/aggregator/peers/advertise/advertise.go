// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package advertise makes this aggregator an endpoint of the kubernetes Service: it tells every replica of core where it is
// (tripod.endpoints.v1) for as long as it serves.
package advertise

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/internal/hop/retry"
	endpointsv1 "github.com/tripod-k8s/tripod/proto/endpoints/v1"
)

// signOfLife is how often every replica of core is told.
const signOfLife = 2 * time.Second

// Conn is a connection to a replica of core.
type Conn interface {
	grpc.ClientConnInterface
	Close() error
}

// Config says whom to tell what.
type Config struct {
	// Address is where other machines reach this aggregator.
	Address netip.AddrPort
	// Cores returns the addresses (host:port) at which the replicas of core serve gRPC.
	Cores func() []string
	// Subscribe calls the function when these may have changed. It must not block.
	Subscribe func(func())
	// Dial returns a connection to an address. It does not wait for it.
	Dial func(address string) (Conn, error)
}

// Advertiser tells all replicas of core.
type Advertiser struct {
	config  Config
	changed chan struct{}
	// leaving ends when the aggregator is about to stop.
	leaving context.Context
	leave   context.CancelFunc
	told    sync.WaitGroup

	mu sync.Mutex
	// cores are those that are told, by address, and how to end that.
	cores map[string]context.CancelFunc
}

// New returns an advertiser that does nothing before Run.
func New(config Config) *Advertiser {
	leaving, leave := context.WithCancel(context.Background())
	a := &Advertiser{
		config: config, changed: make(chan struct{}, 1), leaving: leaving, leave: leave, cores: map[string]context.CancelFunc{},
	}
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

// update tells those that are new, and ends calls of those that are gone.
func (a *Advertiser) update(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.leaving.Err() != nil {
		return
	}
	now := a.config.Cores()
	for address, end := range a.cores {
		if !slices.Contains(now, address) {
			end()
			delete(a.cores, address)
		}
	}
	for _, address := range now {
		if a.cores[address] != nil {
			continue
		}
		one, end := context.WithCancel(ctx)
		a.cores[address] = end
		a.told.Go(func() { a.tell(one, address) })
	}
}

// Leave says that the aggregator is about to stop, and returns when all replicas of core have removed it, or with the context.
func (a *Advertiser) Leave(ctx context.Context) {
	a.leave()
	defer context.AfterFunc(ctx, a.end)()
	a.mu.Lock()   // whoever updates now has begun before, and whoever comes later does nothing
	a.mu.Unlock() //nolint:staticcheck // nothing else is to be done under it
	a.told.Wait()
}

// end ends all calls.
func (a *Advertiser) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, end := range a.cores {
		end()
	}
}

// pauses are those between tries to reach a replica of core: long enough to be no burden, and short against a lease of 15 s.
func pauses() wait.Backoff {
	return wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.3, Steps: 6, Cap: 2 * time.Second}
}

// tell tells one replica until the context ends, or it has heard that the aggregator leaves.
func (a *Advertiser) tell(ctx context.Context, core string) {
	backoff := pauses()
	logged := ""
	for ctx.Err() == nil && a.leaving.Err() == nil {
		began := time.Now()
		err := a.call(ctx, core)
		if err == nil {
			return
		}
		if ctx.Err() == nil && err.Error() != logged {
			logged = err.Error()
			klog.InfoS("This aggregator is not advertised by a replica of core", "replica", core, "address", a.config.Address, "err", err)
		}
		if time.Since(began) > signOfLife {
			backoff = pauses()
		}
		step, cancel := context.WithCancel(ctx)
		stop := context.AfterFunc(a.leaving, cancel)
		retry.For(step, backoff.Step())
		stop()
		cancel()
	}
}

// call makes one call, and returns nil when it ended because the aggregator leaves.
func (a *Advertiser) call(ctx context.Context, core string) error {
	connection, err := a.config.Dial(core)
	if err != nil {
		return err
	}
	defer connection.Close() //nolint:errcheck // what was to be said was said
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	call, err := endpointsv1.NewEndpointsClient(connection).Advertise(ctx)
	if err != nil {
		return err
	}
	beat := time.NewTicker(signOfLife)
	defer beat.Stop()
	message := &endpointsv1.AdvertiseRequest{Address: a.config.Address.Addr().String(), Port: uint32(a.config.Address.Port())}
	for {
		if call.Send(message) != nil {
			// Why is what the answer says.
			return call.RecvMsg(new(endpointsv1.AdvertiseResponse))
		}
		select {
		case <-beat.C:
		case <-call.Context().Done():
			return call.RecvMsg(new(endpointsv1.AdvertiseResponse))
		case <-a.leaving.Done():
			_, err := call.CloseAndRecv()
			return err
		}
	}
}
