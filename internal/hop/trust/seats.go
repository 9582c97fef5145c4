// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"context"
	"slices"

	flowcontrol "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/server"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing"
	"k8s.io/apiserver/pkg/util/flowcontrol/request"
)

// minSeats is how many seats each service has at least.
const minSeats = 10

// Fairness returns the priority and fairness of a server, changed so that services do not queue behind users: requests of a service in its own
// name are exempt, as those of kube-apiserver's loopback client are, whose place they take. Often a user waits for them, who has a seat already.
//
// A tenth of the server's requests in flight are exempt for each service. Further ones queue like those of any user, so a service that runs
// wild starves nobody. Returns nil if the server has no priority and fairness.
func Fairness(config *server.Config) utilflowcontrol.Interface {
	if config.FlowControl == nil {
		return nil
	}
	each := max(minSeats, (config.MaxRequestsInFlight+config.MaxMutatingRequestsInFlight)/10)
	f := &fairness{Interface: config.FlowControl, seats: map[string]chan struct{}{}}
	for _, name := range services {
		f.seats[name] = make(chan struct{}, each)
	}
	return f
}

type fairness struct {
	utilflowcontrol.Interface
	// seats has a value for each exempt request of a service.
	seats map[string]chan struct{}
}

// Handle implements utilflowcontrol.Interface.
func (f *fairness) Handle(
	ctx context.Context, digest utilflowcontrol.RequestDigest,
	note func(fs *flowcontrol.FlowSchema, pl *flowcontrol.PriorityLevelConfiguration, flowDistinguisher string),
	estimate func() request.WorkEstimate, queued fairqueuing.QueueNoteFn, execute func(),
) {
	seats := f.seats[ServiceOf(digest.User)] // nil for all others, who never get one
	select {
	case seats <- struct{}{}:
		defer func() { <-seats }()
		digest.User = exempt{digest.User}
	default:
	}
	f.Interface.Handle(ctx, digest, note, estimate, queued, execute)
}

// exempt is in the group of the FlowSchema exempt, which exists always. Only the classification of a request sees it.
type exempt struct{ user.Info }

// GetGroups implements user.Info.
func (u exempt) GetGroups() []string {
	return append(slices.Clone(u.Info.GetGroups()), user.SystemPrivilegedGroup)
}
