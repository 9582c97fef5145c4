// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdready

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/tripod-k8s/tripod/base/storage/etcdversion"
)

// older answers reads, and reports a version that no program of this repository has.
type older struct {
	etcdserverpb.UnimplementedKVServer
	etcdserverpb.UnimplementedMaintenanceServer

	version string
	header  *etcdserverpb.ResponseHeader
}

func (o *older) Range(context.Context, *etcdserverpb.RangeRequest) (*etcdserverpb.RangeResponse, error) {
	return &etcdserverpb.RangeResponse{Header: o.header}, nil
}

func (o *older) Status(context.Context, *etcdserverpb.StatusRequest) (*etcdserverpb.StatusResponse, error) {
	if o.version == "" {
		return nil, status.Error(codes.PermissionDenied, "etcdserver: permission denied")
	}
	return &etcdserverpb.StatusResponse{Header: o.header, Version: o.version}, nil
}

// start serves until the test ends.
func (o *older) start(t *testing.T) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	etcdserverpb.RegisterKVServer(server, o)
	etcdserverpb.RegisterMaintenanceServer(server, o)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return "http://" + listener.Addr().String()
}

func TestAnEtcdThatIsTooOldIsRefused(t *testing.T) {
	ofEtcd := &etcdserverpb.ResponseHeader{ClusterId: 1, MemberId: 2, RaftTerm: 3}
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, gone.Close())
	for name, tc := range map[string]struct {
		server  *older
		refused bool
	}{
		"too old":                     {&older{version: "3.4.44", header: ofEtcd}, true},
		"with gaps between users":     {&older{version: "3.5.0", header: ofEtcd}, false},
		"that tells only root":        {&older{header: ofEtcd}, false},
		"kine, whose version is none": {&older{version: "3.4.44", header: &etcdserverpb.ResponseHeader{}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			address := tc.server.start(t)
			config := storagebackend.Config{Prefix: "/registry", Transport: storagebackend.TransportConfig{
				ServerList: []string{"http://" + gone.Addr().String(), address},
			}}
			for _, err := range []error{Wait(t.Context(), config, newServing(t)), Check(t.Context(), config)} {
				if !tc.refused {
					assert.NoError(t, err)
					continue
				}
				assert.ErrorIs(t, err, etcdversion.ErrTooOld)
				assert.ErrorContains(t, err, address+": etcd 3.4.44 is too old for this Kubernetes: upgrade it to 3.5.33 or later")
				assert.NotContains(t, err.Error(), "\n")
			}
		})
	}
}
