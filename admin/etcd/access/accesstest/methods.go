// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package accesstest

import (
	"context"
	"errors"
	"io"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/grpc"
)

// leaseAttempts try the service Lease.
func leaseAttempts(conn *grpc.ClientConn, t Target) []attempt {
	lease := pb.NewLeaseClient(conn)
	grant := func(ctx context.Context) (int64, error) {
		granted, err := lease.LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: 60})
		if err != nil {
			return 0, err
		}
		return granted.ID, nil
	}
	return []attempt{
		{"Lease.LeaseGrant", "", func(ctx context.Context) error { _, err := grant(ctx); return err }},
		unary("Lease.LeaseRevoke", "one with keys of others", lease.LeaseRevoke, &pb.LeaseRevokeRequest{ID: int64(t.Lease)}),
		{"Lease.LeaseRevoke", "one without keys", func(ctx context.Context) error {
			id, err := grant(ctx)
			if err != nil {
				return err
			}
			_, err = lease.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: id})
			return err
		}},
		{"Lease.LeaseKeepAlive", "", func(ctx context.Context) error {
			stream, err := lease.LeaseKeepAlive(ctx)
			if err != nil {
				return err
			}
			if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(t.Lease)}); err != nil {
				return err
			}
			_, err = stream.Recv()
			return err
		}},
		unary("Lease.LeaseTimeToLive", "keys", lease.LeaseTimeToLive, &pb.LeaseTimeToLiveRequest{ID: int64(t.Lease), Keys: true}),
		unary("Lease.LeaseTimeToLive", "time", lease.LeaseTimeToLive, &pb.LeaseTimeToLiveRequest{ID: int64(t.Lease)}),
		{"Lease.LeaseLeases", "", func(ctx context.Context) error {
			_, err := lease.LeaseLeases(ctx, &pb.LeaseLeasesRequest{})
			return err
		}},
	}
}

// concurrencyAttempts try the services Election and Lock, which etcd builds on the others.
func concurrencyAttempts(conn *grpc.ClientConn, t Target) []attempt {
	election, lock := v3electionpb.NewElectionClient(conn), v3lockpb.NewLockClient(conn)
	name := []byte(t.Directory)
	leader := &v3electionpb.LeaderKey{Name: name, Key: []byte(t.Forbidden), Rev: 1, Lease: int64(t.Lease)}
	return []attempt{
		unary("Election.Campaign", "", election.Campaign, &v3electionpb.CampaignRequest{Name: name}),
		unary("Election.Proclaim", "", election.Proclaim, &v3electionpb.ProclaimRequest{Leader: leader}),
		unary("Election.Leader", "", election.Leader, &v3electionpb.LeaderRequest{Name: name}),
		{"Election.Observe", "", func(ctx context.Context) error {
			stream, err := election.Observe(ctx, &v3electionpb.LeaderRequest{Name: name})
			if err != nil {
				return err
			}
			_, err = stream.Recv()
			if errors.Is(err, io.EOF) { // etcd does not say why it ends
				return errors.New("permission denied")
			}
			return err
		}},
		unary("Election.Resign", "", election.Resign, &v3electionpb.ResignRequest{Leader: leader}),
		{"Lock.Lock", "", func(ctx context.Context) error {
			_, err := lock.Lock(ctx, &v3lockpb.LockRequest{Name: name})
			return err
		}},
		{"Lock.Unlock", "", func(ctx context.Context) error {
			_, err := lock.Unlock(ctx, &v3lockpb.UnlockRequest{Key: []byte(t.Forbidden)})
			return err
		}},
	}
}

// unary is an attempt with a method that has one request and one answer.
func unary[Request, Answer any](
	rpc, name string, call func(context.Context, Request, ...grpc.CallOption) (Answer, error), request Request,
) attempt {
	return attempt{rpc, name, func(ctx context.Context) error { _, err := call(ctx, request); return err }}
}

// rootAttempts try what is for root, or of the whole of etcd.
func rootAttempts(conn *grpc.ClientConn, t Target) []attempt {
	cluster, maintenance, auth := pb.NewClusterClient(conn), pb.NewMaintenanceClient(conn), pb.NewAuthClient(conn)
	const root, urls = "root", "https://127.0.0.1:1"
	everything := &pb.AuthRoleGrantPermissionRequest{
		Name: t.User, Perm: &authpb.Permission{PermType: authpb.READWRITE, Key: beyond, RangeEnd: beyond},
	}
	return []attempt{
		unary("Cluster.MemberList", "", cluster.MemberList, &pb.MemberListRequest{Linearizable: true}),
		unary("Cluster.MemberAdd", "", cluster.MemberAdd, &pb.MemberAddRequest{PeerURLs: []string{urls}, IsLearner: true}),
		unary("Cluster.MemberRemove", "", cluster.MemberRemove, &pb.MemberRemoveRequest{ID: 1}),
		unary("Cluster.MemberUpdate", "", cluster.MemberUpdate, &pb.MemberUpdateRequest{ID: 1, PeerURLs: []string{urls}}),
		unary("Cluster.MemberPromote", "", cluster.MemberPromote, &pb.MemberPromoteRequest{ID: 1}),
		unary("Maintenance.Status", "", maintenance.Status, &pb.StatusRequest{}),
		unary("Maintenance.Alarm", "list", maintenance.Alarm, &pb.AlarmRequest{Action: pb.AlarmRequest_GET}),
		unary("Maintenance.Alarm", "raise", maintenance.Alarm, &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, Alarm: pb.AlarmType_NOSPACE}),
		unary("Maintenance.Alarm", "clear", maintenance.Alarm, &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, Alarm: pb.AlarmType_NOSPACE}),
		unary("Maintenance.Defragment", "", maintenance.Defragment, &pb.DefragmentRequest{}),
		unary("Maintenance.Hash", "", maintenance.Hash, &pb.HashRequest{}),
		unary("Maintenance.HashKV", "", maintenance.HashKV, &pb.HashKVRequest{}),
		unary("Maintenance.MoveLeader", "", maintenance.MoveLeader, &pb.MoveLeaderRequest{TargetID: 1}),
		unary("Maintenance.Downgrade", "validate", maintenance.Downgrade,
			&pb.DowngradeRequest{Action: pb.DowngradeRequest_VALIDATE, Version: "3.5.0"}),
		unary("Maintenance.Downgrade", "enable", maintenance.Downgrade,
			&pb.DowngradeRequest{Action: pb.DowngradeRequest_ENABLE, Version: "3.5.0"}),
		unary("Maintenance.Downgrade", "cancel", maintenance.Downgrade,
			&pb.DowngradeRequest{Action: pb.DowngradeRequest_CANCEL}),
		{"Maintenance.Snapshot", "", func(ctx context.Context) error {
			stream, err := maintenance.Snapshot(ctx, &pb.SnapshotRequest{})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		}},
		unary("Auth.AuthStatus", "", auth.AuthStatus, &pb.AuthStatusRequest{}),
		unary("Auth.AuthEnable", "", auth.AuthEnable, &pb.AuthEnableRequest{}),
		unary("Auth.UserAdd", "", auth.UserAdd, &pb.AuthUserAddRequest{Name: "intruder", Password: "intruder"}),
		unary("Auth.UserGet", "its own", auth.UserGet, &pb.AuthUserGetRequest{Name: t.User}),
		unary("Auth.UserGet", "another", auth.UserGet, &pb.AuthUserGetRequest{Name: root}),
		unary("Auth.UserList", "", auth.UserList, &pb.AuthUserListRequest{}),
		unary("Auth.UserDelete", "", auth.UserDelete, &pb.AuthUserDeleteRequest{Name: t.User}),
		unary("Auth.UserChangePassword", "", auth.UserChangePassword, &pb.AuthUserChangePasswordRequest{Name: t.User, Password: "known"}),
		unary("Auth.UserGrantRole", "", auth.UserGrantRole, &pb.AuthUserGrantRoleRequest{User: t.User, Role: root}),
		unary("Auth.UserRevokeRole", "", auth.UserRevokeRole, &pb.AuthUserRevokeRoleRequest{Name: root, Role: root}),
		unary("Auth.RoleAdd", "", auth.RoleAdd, &pb.AuthRoleAddRequest{Name: "intruder"}),
		unary("Auth.RoleGet", "its own", auth.RoleGet, &pb.AuthRoleGetRequest{Role: t.User}),
		unary("Auth.RoleGet", "another", auth.RoleGet, &pb.AuthRoleGetRequest{Role: root}),
		unary("Auth.RoleList", "", auth.RoleList, &pb.AuthRoleListRequest{}),
		unary("Auth.RoleDelete", "", auth.RoleDelete, &pb.AuthRoleDeleteRequest{Role: root}),
		unary("Auth.RoleGrantPermission", "", auth.RoleGrantPermission, everything),
		unary("Auth.RoleRevokePermission", "", auth.RoleRevokePermission, &pb.AuthRoleRevokePermissionRequest{Role: t.User, Key: []byte(t.Own)}),
		unary("Auth.AuthDisable", "", auth.AuthDisable, &pb.AuthDisableRequest{}),
	}
}
