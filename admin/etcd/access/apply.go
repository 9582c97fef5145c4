// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/authpb"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tripod-k8s/tripod/base/storage/etcdversion"
	"github.com/tripod-k8s/tripod/services/shared/partitions"
)

const (
	retryInterval = time.Second
	// requestTimeout is the timeout of a request to etcd while Await waits.
	requestTimeout = 5 * time.Second
	// maxConcurrentChanges is the number of ranges that change at the same time.
	maxConcurrentChanges = 64
)

// Options are the options of Apply.
type Options struct {
	// Prefix is the --etcd-prefix of the services.
	Prefix string
	// Partitions are those of extensions.
	Partitions partitions.Table
	// Services are the additional API services.
	Services []Service
	// Administrators are the common names of other certificates that may do everything, such as that of kubeadm.
	Administrators []string
	// Former is the common name of the certificate that services of an older release use. The run that turns authentication on gives this user
	// access to all keys, so that replicas which have not restarted go on working. Empty means none.
	Former string
	// Remove is the former user, once no replica uses it any more. Empty means none.
	Remove string
	// Progress is called with a line about each change.
	Progress func(line string)
}

// apply is one run of Apply.
type apply struct {
	Options
	client *clientv3.Client
}

// Apply creates or changes the users and roles of the services in etcd, and turns authentication on. The client must be the user root.
// Other users and roles stay as they are. Requests of services that wait in etcd while a role changes may fail. It changes nothing if a
// member of etcd has a version that lets users reach keys of others.
func Apply(ctx context.Context, client *clientv3.Client, o Options) error {
	a := &apply{Options: o, client: client}
	status, err := client.AuthStatus(ctx)
	if err != nil {
		return fmt.Errorf("cannot ask etcd about authentication: %w", err)
	}
	if err := checkMembers(ctx, client); err != nil {
		return err
	}
	roles, users, err := a.existing(ctx)
	if err != nil {
		return err
	}
	for _, role := range Roles(o.Prefix, o.Partitions, o.Services...) {
		if err := a.role(ctx, role, slices.Contains(roles, role.Name)); err != nil {
			return err
		}
		if err := a.user(ctx, role.Name, role.Name, slices.Contains(users, role.Name)); err != nil {
			return err
		}
	}
	if err := a.role(ctx, Role{Name: Root}, slices.Contains(roles, Root)); err != nil {
		return err
	}
	for _, name := range append([]string{Root}, o.Administrators...) {
		if err := a.user(ctx, name, Root, slices.Contains(users, name)); err != nil {
			return err
		}
	}
	if slices.Contains(users, o.Remove) {
		if err := a.do("removed user "+o.Remove, func() error { _, err := client.UserDelete(ctx, o.Remove); return err }); err != nil {
			return err
		}
	}
	if status.Enabled {
		return nil
	}
	if o.Former != "" {
		if err := a.user(ctx, o.Former, Root, slices.Contains(users, o.Former)); err != nil {
			return err
		}
	}
	return a.do("turned authentication on", func() error { _, err := client.AuthEnable(ctx); return err })
}

// Disable turns authentication off. As before Apply, each client with a certificate of the CA may do everything.
func Disable(ctx context.Context, client *clientv3.Client) error {
	if _, err := client.AuthDisable(ctx); err != nil {
		return fmt.Errorf("cannot turn authentication off in etcd: %w", err)
	}
	return nil
}

// do makes a change and reports it.
func (a *apply) do(what string, change func() error) error {
	if err := change(); err != nil {
		return fmt.Errorf("cannot change etcd (%s): %w", what, err)
	}
	a.Progress(what)
	return nil
}

func (a *apply) existing(ctx context.Context) (roles, users []string, err error) {
	listed, err := a.client.RoleList(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot list the roles in etcd: %w", err)
	}
	known, err := a.client.UserList(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot list the users in etcd: %w", err)
	}
	return listed.Roles, known.Users, nil
}

// user creates a user, if necessary, and gives it the role.
func (a *apply) user(ctx context.Context, name, role string, exists bool) error {
	var has []string
	if exists {
		answer, err := a.client.UserGet(ctx, name)
		if err != nil {
			return fmt.Errorf("cannot read user %s in etcd: %w", name, err)
		}
		has = answer.Roles
	} else if err := a.do("added user "+name, func() error {
		_, err := a.client.UserAddWithOptions(ctx, name, "", &clientv3.UserAddOptions{NoPassword: true})
		return err
	}); err != nil {
		return err
	}
	if slices.Contains(has, role) {
		return nil
	}
	return a.do("gave user "+name+" role "+role, func() error { _, err := a.client.UserGrantRole(ctx, name, role); return err })
}

// role creates a role, if necessary, and gives it exactly these ranges. The role root needs none, because etcd allows it everything.
func (a *apply) role(ctx context.Context, want Role, exists bool) error {
	var has []Range
	if exists {
		answer, err := a.client.RoleGet(ctx, want.Name)
		if err != nil {
			return fmt.Errorf("cannot read role %s in etcd: %w", want.Name, err)
		}
		for _, p := range answer.Perm {
			has = append(has, Range{Key: string(p.Key), End: string(p.RangeEnd), ReadOnly: p.PermType == authpb.READ})
		}
	} else if err := a.do("added role "+want.Name, func() error { _, err := a.client.RoleAdd(ctx, want.Name); return err }); err != nil {
		return err
	}
	if want.Name == Root {
		return nil
	}
	// Grant before revoking, so that a service never loses keys that it may use before and after the change.
	missing := slices.DeleteFunc(slices.Clone(want.Ranges), func(r Range) bool { return slices.Contains(has, r) })
	if err := each(ctx, missing, func(ctx context.Context, r Range) error {
		kind := clientv3.PermissionType(clientv3.PermReadWrite)
		if r.ReadOnly {
			kind = clientv3.PermissionType(clientv3.PermRead)
		}
		_, err := a.client.RoleGrantPermission(ctx, want.Name, r.Key, r.End, kind)
		return err
	}); err != nil {
		return fmt.Errorf("cannot grant role %s the range %w", want.Name, err)
	}
	former := slices.DeleteFunc(has, func(r Range) bool {
		return slices.ContainsFunc(want.Ranges, func(w Range) bool { return w.Key == r.Key && w.End == r.End })
	})
	if err := each(ctx, former, func(ctx context.Context, r Range) error {
		_, err := a.client.RoleRevokePermission(ctx, want.Name, r.Key, r.End)
		return err
	}); err != nil {
		return fmt.Errorf("cannot revoke from role %s the range %w", want.Name, err)
	}
	return nil
}

// each calls change for all ranges, many at a time: etcd then writes them to its disk together, so hundreds take no longer than a few.
func each(ctx context.Context, ranges []Range, change func(context.Context, Range) error) error {
	changes, ctx := errgroup.WithContext(ctx)
	changes.SetLimit(maxConcurrentChanges)
	for _, r := range ranges {
		changes.Go(func() error {
			if err := retryTimeouts(func() error { return change(ctx, r) }); err != nil {
				return fmt.Errorf("%q in etcd: %w", r.Key, err)
			}
			return nil
		})
	}
	return changes.Wait()
}

// retryTimeouts retries a change as long as it times out in etcd, whose disk may be slow. To make a change twice does no harm.
func retryTimeouts(change func() error) error {
	for {
		if err := change(); !errors.Is(err, rpctypes.ErrTimeout) {
			return err
		}
	}
}

// Connect returns a client of an etcd. If all files are empty, it uses no TLS.
func Connect(endpoints []string, caFile, certFile, keyFile string) (*clientv3.Client, error) {
	config := clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()}
	if caFile != "" || certFile != "" || keyFile != "" {
		files := transport.TLSInfo{TrustedCAFile: caFile, CertFile: certFile, KeyFile: keyFile}
		var err error
		if config.TLS, err = files.ClientConfig(); err != nil {
			return nil, fmt.Errorf("cannot use the certificates for etcd: %w", err)
		}
	}
	return clientv3.New(config)
}

// CheckEtcd returns an error if a read says that the server is not etcd, so that commands for etcd cannot work with it.
func CheckEtcd(ctx context.Context, client *clientv3.Client) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	answer, err := client.Get(ctx, "/", clientv3.WithCountOnly())
	if err != nil {
		return nil
	}
	return CheckHeader(client.Endpoints(), answer.Header)
}

// CheckHeader is CheckEtcd for the answer to a read.
func CheckHeader(endpoints []string, header *etcdserverpb.ResponseHeader) error {
	if etcdversion.IsEtcd(header) {
		return nil
	}
	return fmt.Errorf("%s is not etcd, but a server such as kine, which has no members, users and snapshots: use the tools of its database",
		strings.Join(endpoints, ","))
}

// Await returns when etcd answers. When the context ends, it returns the last error. It does not wait for a server that is not etcd.
func Await(ctx context.Context, client *clientv3.Client) error {
	last := context.DeadlineExceeded
	err := wait.PollUntilContextCancel(ctx, retryInterval, true, func(ctx context.Context) (bool, error) {
		asking, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		_, err := client.AuthStatus(asking)
		if status.Code(err) == codes.Unimplemented {
			if not := CheckEtcd(ctx, client); not != nil {
				return false, not
			}
		}
		if err != nil && ctx.Err() == nil {
			last = err
		}
		return err == nil || errors.Is(err, rpctypes.ErrPermissionDenied), nil
	})
	if wait.Interrupted(err) {
		return fmt.Errorf("etcd at %s does not answer (certificates?): %w", strings.Join(client.Endpoints(), ","), last)
	}
	return err
}
