// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	flowcontrol "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/server"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing"
	"k8s.io/apiserver/pkg/util/flowcontrol/request"
)

// classifier records whether the last request was exempt.
type classifier struct {
	utilflowcontrol.Interface
	exempt bool
}

func (c *classifier) Handle(
	_ context.Context, digest utilflowcontrol.RequestDigest,
	_ func(*flowcontrol.FlowSchema, *flowcontrol.PriorityLevelConfiguration, string),
	_ func() request.WorkEstimate, _ fairqueuing.QueueNoteFn, execute func(),
) {
	c.exempt = slices.Contains(digest.User.GetGroups(), user.SystemPrivilegedGroup)
	execute()
}

func TestServicesDoNotQueueBehindUsers(t *testing.T) {
	for _, test := range []struct{ readOnly, mutating, seats int }{{400, 200, 60}, {1, 0, minSeats}} {
		c := &classifier{}
		fair := Fairness(&server.Config{FlowControl: c, MaxRequestsInFlight: test.readOnly, MaxMutatingRequestsInFlight: test.mutating})
		// during sends a request, and calls do while it runs.
		during := func(sender user.Info, do func()) (exempt bool) {
			fair.Handle(t.Context(), utilflowcontrol.RequestDigest{User: sender}, nil, nil, nil, func() {
				exempt = c.exempt
				do()
			})
			return exempt
		}
		alone := func(sender user.Info) bool { return during(sender, func() {}) }
		extensions := newService(Extensions, nil)
		namesake := &user.DefaultInfo{Name: Extensions, Groups: []string{user.AllAuthenticated}}
		var nested func(n int)
		nested = func(n int) {
			if n == 0 {
				assert.False(t, alone(extensions), "one more request")
				assert.True(t, alone(newService(Aggregator, nil)), "another service")
				assert.True(t, alone(newService(wardle, nil)), "an additional service")
				assert.False(t, alone(namesake), "a client with the name of a service")
				return
			}
			assert.True(t, during(extensions, func() { nested(n - 1) }), "a request of the service, %d before the last", n)
		}
		nested(test.seats)
		assert.True(t, alone(extensions), "after the others")
		assert.Equal(t, []string{user.AllAuthenticated}, extensions.GetGroups(), "groups of the service")
	}
	require.Nil(t, Fairness(&server.Config{}), "without priority and fairness")
}
