// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package accesstest attacks an etcd with the certificate of a service: it tries each RPC of etcd's API on keys and leases of others.
package accesstest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"k8s.io/apimachinery/pkg/util/version"
)

// attemptTimeout bounds one attempt. An RPC that waits, such as a campaign, counts as allowed when it has waited that long.
const attemptTimeout = 10 * time.Second

// Target is an attacker and its victim.
type Target struct {
	// User is the attacker's user.
	User string
	// Own is a key that the attacker may read and write.
	Own string
	// Forbidden is a key that it may not use. Directory is the directory of that key, without a slash at the end.
	Forbidden, Directory string
	// Lease is a lease that another user attached to Forbidden.
	Lease clientv3.LeaseID
}

// Plant stores a key with a lease as root, and returns the lease.
func Plant(ctx context.Context, root *clientv3.Client, key string) (clientv3.LeaseID, error) {
	lease, err := root.Grant(ctx, int64(time.Hour/time.Second))
	if err != nil {
		return 0, err
	}
	_, err = root.Put(ctx, key, "secret", clientv3.WithLease(lease.ID))
	return lease.ID, err
}

// attempt is a request that reaches something of others, or of the whole of etcd.
type attempt struct {
	// rpc is the method, as in KV.Range.
	rpc string
	// name says what it tries, if a method has several attempts.
	name string
	try  func(context.Context) error
}

func (a attempt) String() string { return strings.TrimSuffix(a.rpc+": "+a.name, ": ") }

// Allowed makes all attempts, and returns those that etcd did not refuse, sorted.
func Allowed(ctx context.Context, client *clientv3.Client, t Target) ([]string, error) {
	var allowed []string
	for _, a := range attempts(client.ActiveConnection(), t) {
		served, err := run(ctx, a)
		if err != nil {
			return nil, fmt.Errorf("%s of user %s: %w", a, t.User, err)
		}
		if served {
			allowed = append(allowed, a.String())
		}
	}
	slices.Sort(allowed)
	return allowed, nil
}

// run makes an attempt. etcd may say in a status, in an answer or by its text that it refuses.
func run(ctx context.Context, a attempt) (served bool, err error) {
	trying, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	err = a.try(trying)
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err == nil, trying.Err() != nil:
		return true, nil
	case strings.Contains(err.Error(), "permission denied"):
		return false, nil
	case status.Code(err) == codes.Unimplemented:
		// An older etcd lacks the method.
		return false, nil
	}
	return false, err
}

// Expected returns what each service may do in etcd besides its own keys. docs/threat-model.md says what that means.
func Expected(ctx context.Context, client *clientv3.Client) ([]string, error) {
	answer, err := client.Status(ctx, client.Endpoints()[0])
	if err != nil {
		return nil, err
	}
	etcd, err := version.ParseSemantic(answer.Version)
	if err != nil {
		return nil, fmt.Errorf("version of etcd: %w", err)
	}
	expected := []string{
		"Auth.RoleGet: its own",
		"Auth.UserGet: its own",
		"Cluster.MemberList",
		"Lease.LeaseGrant",
		"Lease.LeaseRevoke: one without keys",
		"Lease.LeaseTimeToLive: time",
		"Maintenance.Alarm: list",
		"Maintenance.Status",
	}
	// Until 3.6 only root may ask that.
	if etcd.AtLeast(version.MustParseSemantic("3.7.0")) {
		expected = append([]string{"Auth.AuthStatus"}, expected...)
	}
	return expected, nil
}

// harmless are methods that attempts leave out: they need no certificate, or authenticate.
var harmless = []string{"Auth.Authenticate"}

// Unclassified returns the methods of etcd's API that have no attempt. A new version of etcd may add some.
func Unclassified() []string {
	known := slices.Clone(harmless)
	for _, a := range attempts(nil, Target{}) {
		known = append(known, a.rpc)
	}
	return slices.DeleteFunc(methods(), func(rpc string) bool { return slices.Contains(known, rpc) })
}

// methods returns all methods of services in packages of etcd, whose names end in pb, as they are linked into this program.
func methods() (names []string) {
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		if !strings.HasSuffix(string(file.Package()), "pb") {
			return true
		}
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				names = append(names, string(service.Name())+"."+string(service.Methods().Get(j).Name()))
			}
		}
		return true
	})
	slices.Sort(names)
	return names
}

// attempts are all that this package tries.
func attempts(conn *grpc.ClientConn, t Target) []attempt {
	return slices.Concat(
		keyAttempts(conn, t), watchAttempts(conn, t), leaseAttempts(conn, t), concurrencyAttempts(conn, t), rootAttempts(conn, t),
	)
}
