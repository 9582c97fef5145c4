// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"context"
	"slices"
	"sync"

	flowcontrol "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/server"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing"
	"k8s.io/apiserver/pkg/util/flowcontrol/request"
)

// minSeats is the smallest number of seats per service.
const minSeats = 10

// Fairness returns the server's API Priority and Fairness, changed so that services do not queue behind users. A request that a service
// sends in its own name is exempt, like those of kube-apiserver's loopback client, which it replaces. Often a user with a seat is waiting
// for that request.
//
// Each service has exempt seats: a tenth of the server's requests in flight. More requests queue like those of any user, so a service
// that runs wild starves no user. Fairness returns nil if the server has no API Priority and Fairness.
func Fairness(config *server.Config) utilflowcontrol.Interface {
	if config.FlowControl == nil {
		return nil
	}
	each := max(minSeats, (config.MaxRequestsInFlight+config.MaxMutatingRequestsInFlight)/10)
	return &fairness{Interface: config.FlowControl, each: each}
}

type fairness struct {
	utilflowcontrol.Interface
	each int
	// seats has a channel for each service, with one value for each exempt request in flight.
	seats sync.Map
}

// seatsOf returns the seats of a service. They are nil for all other users: they never get one.
func (f *fairness) seatsOf(u user.Info) chan struct{} {
	name := ServiceOf(u)
	if name == "" {
		return nil
	}
	seats, known := f.seats.Load(name)
	if !known {
		seats, _ = f.seats.LoadOrStore(name, make(chan struct{}, f.each))
	}
	return seats.(chan struct{}) // nothing else is stored
}

// Handle implements utilflowcontrol.Interface.
func (f *fairness) Handle(
	ctx context.Context, digest utilflowcontrol.RequestDigest,
	note func(fs *flowcontrol.FlowSchema, pl *flowcontrol.PriorityLevelConfiguration, flowDistinguisher string),
	estimate func() request.WorkEstimate, queued fairqueuing.QueueNoteFn, execute func(),
) {
	seats := f.seatsOf(digest.User)
	select {
	case seats <- struct{}{}:
		defer func() { <-seats }()
		digest.User = exempt{digest.User}
	default:
	}
	f.Interface.Handle(ctx, digest, note, estimate, queued, execute)
}

// exempt puts the user into the group that the FlowSchema exempt matches. This FlowSchema always exists. Only the classification of a
// request sees the group.
type exempt struct{ user.Info }

// GetGroups implements user.Info.
func (u exempt) GetGroups() []string {
	return append(slices.Clone(u.Info.GetGroups()), user.SystemPrivilegedGroup)
}
