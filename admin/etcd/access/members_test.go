// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// oldMember is a member of an etcd that has a version and members, and nothing else: it rejects each change.
type oldMember struct {
	pb.UnimplementedAuthServer
	pb.UnimplementedClusterServer
	pb.UnimplementedMaintenanceServer
	id      uint64
	version string
	members []*pb.Member
}

func (m *oldMember) AuthStatus(context.Context, *pb.AuthStatusRequest) (*pb.AuthStatusResponse, error) {
	return &pb.AuthStatusResponse{}, nil
}

func (m *oldMember) MemberList(context.Context, *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	return &pb.MemberListResponse{Members: m.members}, nil
}

func (m *oldMember) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	return &pb.StatusResponse{Header: &pb.ResponseHeader{MemberId: m.id}, Version: m.version}, nil
}

// TestNoUsersInAnEtcdThatDoesNotEnforceThem has etcds whose first member is given, and further ones that it lists.
func TestNoUsersInAnEtcdThatDoesNotEnforceThem(t *testing.T) {
	for name, test := range map[string]struct {
		versions []string // empty means that the member does not answer
		want     string
	}{
		"an old etcd":      {[]string{"3.6.8"}, "etcd 3.6.8 lets a user reach the keys of others (GHSA-rfx7-8w68-q57q"},
		"one old member":   {[]string{"3.6.16", "3.6.16", "3.6.13"}, "etcd 3.6.13 lets a user reach the keys of others"},
		"a silent member":  {[]string{"3.6.16", ""}, "the version of these members of etcd is unknown: member-1 (2)"},
		"a fixed etcd 3.5": {[]string{"3.5.33"}, "cannot list the roles in etcd"}, // which the test does not have
	} {
		t.Run(name, func(t *testing.T) {
			var members []*oldMember
			var list []*pb.Member
			for i, version := range test.versions {
				listener, err := net.Listen("tcp", "127.0.0.1:0")
				require.NoError(t, err)
				member := &oldMember{id: uint64(i + 1), version: version}
				members = append(members, member)
				list = append(list, &pb.Member{ID: member.id, Name: "member-" + string(rune('0'+i)), ClientURLs: []string{"http://" + listener.Addr().String()}})
				if version == "" {
					require.NoError(t, listener.Close())
					continue
				}
				server := grpc.NewServer()
				pb.RegisterAuthServer(server, member)
				pb.RegisterClusterServer(server, member)
				pb.RegisterMaintenanceServer(server, member)
				go server.Serve(listener) //nolint:errcheck // it ends with the test
				t.Cleanup(server.Stop)
			}
			members[0].members = list
			client, err := Connect(list[0].ClientURLs, "", "", "")
			require.NoError(t, err)
			defer client.Close()
			err = Apply(t.Context(), client, Options{Prefix: "/registry", Progress: func(line string) { t.Errorf("changed: %s", line) }})
			assert.ErrorContains(t, err, test.want)
		})
	}
}
