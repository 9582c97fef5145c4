// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/local/balancer"
	"github.com/tripod-k8s/tripod/local/process"
	"github.com/tripod-k8s/tripod/local/replicas"
)

// newInstance returns an instance that can run nothing.
func newInstance(t *testing.T) *instance {
	t.Helper()
	i := &instance{dataDir: DataDir(t.TempDir()), out: io.Discard, args: newArguments(t, DefaultOptions())}
	i.options, i.store = i.args.options, i.args.store
	i.group = process.NewGroup(i.report)
	i.fleet = replicas.NewFleet(i.group, replicas.FleetConfig{Process: i.process, Use: i.use, Report: i.printLine})
	t.Cleanup(i.fleet.Stop)
	return i
}

func TestScaleIsRefused(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*instance)
		wanted scaleRequest
		want   string
	}{
		{name: "what is no service", wanted: scaleRequest{"etcd", 3}, want: `there is no service "etcd": give one of core, extensions, aggregator`},
		{name: "no replica", wanted: scaleRequest{"core", 0}, want: "0 replicas are not between 1 and 20"},
		{name: "too many replicas", wanted: scaleRequest{"core", 21}, want: "21 replicas are not between 1 and 20"},
		{name: "before it is ready", change: func(i *instance) { i.started.Store(false) }, wanted: scaleRequest{"core", 2}, want: "is not ready yet"},
		{name: "twice at a time", change: func(i *instance) { i.listen(func(string) {}) }, wanted: scaleRequest{"core", 2}, want: replicas.ErrBusy.Error()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			i := newInstance(t)
			i.started.Store(true)
			if tc.change != nil {
				tc.change(i)
			}
			err := i.scale(t.Context(), tc.wanted, func(string) {})
			assert.ErrorContains(t, err, tc.want)
		})
	}
}

func TestProgressOfScalingIsPrinted(t *testing.T) {
	i := newInstance(t)
	stopping := process.Event{Type: process.Stopping, Component: "core", Replica: "core-1"}
	var received []string
	i.report(stopping) // as when the instance stops, which is reported once
	if !i.listen(func(line string) { received = append(received, line) }) {
		t.Fatal("somebody listens already")
	}
	i.report(stopping)
	i.listenNoMore()
	i.report(stopping)
	assert.Equal(t, []string{"  core-1        stopping"}, received)
}

func TestAggregatorsServeAtPortsInARow(t *testing.T) {
	i := newInstance(t)
	first, err := choosePorts(i.options.BindAddress, 0, 3)
	require.NoError(t, err)
	i.args.port = first
	replica, err := replicas.NewReplica(replicas.Aggregator, "aggregator-2")
	require.NoError(t, err)
	t.Cleanup(replica.Release)
	loopback := i.options.BindAddress
	expect := func(number int, want string) {
		t.Helper()
		if address, port, err := i.place(replica, number); err != nil || !address.Equal(loopback) || port != want {
			t.Errorf("number %d serves at port %s of %s (%v), want port %s of %s", number, port, address, err, want, loopback)
		}
	}
	expect(0, strconv.Itoa(first))
	expect(2, strconv.Itoa(first+2))

	taken, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+1))
	require.NoError(t, err)
	defer taken.Close()
	if _, _, err := i.place(replica, 1); err == nil || err.Error() != fmt.Sprintf("port %d of 127.0.0.1 is already in use", first+1) {
		t.Errorf("error for a port that is taken is %v", err)
	}

	if i.balancer, err = balancer.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer i.balancer.Close()
	expect(1, replica.Port())
}

func TestReplicasInUseAreInTheBackendsFile(t *testing.T) {
	i := newInstance(t)
	i.options.Services = []string{"wardle=/wardle"}
	i.options.Partitions = []string{"big=*.example.com,example.org"}
	errStop := errors.New("no processes in this test")
	i.fleet = replicas.NewFleet(i.group, replicas.FleetConfig{
		Process: func(*replicas.Replica, int) (process.Process, error) { return process.Process{}, errStop }, Use: i.use, Report: i.printLine,
	})
	_, err := i.fleet.Start([]replicas.Count{
		{Name: replicas.Core, Replicas: 2}, {Name: replicas.Extensions, Replicas: 1}, {Name: "wardle", Replicas: 2}, {Name: replicas.Aggregator, Replicas: 2},
		{Name: "extensions-big", Replicas: 1},
	})
	require.ErrorIs(t, err, errStop)
	got, err := addresses.LoadBackends(i.dataDir.backends())
	require.NoError(t, err)
	want := &addresses.Backends{
		Core: replicas.Locate(i.fleet.Used(replicas.Core)), Extensions: replicas.Locate(i.fleet.Used(replicas.Extensions)),
		Services: map[string]addresses.Service{
			"extensions-big": {Replicas: replicas.Locate(i.fleet.Used("extensions-big")), Groups: []string{"*.example.com", "example.org"}},
			"wardle":         {Replicas: replicas.Locate(i.fleet.Used("wardle"))},
		},
	}
	for number := range 2 {
		want.Aggregator.Servers = append(want.Aggregator.Servers, fmt.Sprintf("https://127.0.0.1:%d", i.args.port+number))
	}
	if len(want.Core.Servers) != 2 || len(want.Services["wardle"].Servers) != 2 || !reflect.DeepEqual(got, want) {
		t.Errorf("the file says %+v, want %+v", got, want)
	}
}
