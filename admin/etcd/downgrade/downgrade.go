// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package downgrade prepares the data of a running etcd for the minor version before. Without that, servers of that version refuse the
// data.
//
// The rules are etcd's own (https://etcd.io/docs/v3.7/downgrades/downgrading-etcd/): one minor version at a time, servers are replaced one
// after the other once all have stored the older form, and the permission for it ends when all are replaced, or with Cancel.
package downgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// requestTimeout is how long a member may take for an answer.
	requestTimeout = 5 * time.Second
	// askInterval is the time between two questions which form members have stored. They look themselves every five seconds.
	askInterval = 500 * time.Millisecond
)

// Member is a server of etcd.
type Member struct {
	Name     string `json:"name"`
	Endpoint string `json:"endpoint"`
	// Version is that of the server, and StorageVersion the form of its data, as in 3.6.0.
	Version        string `json:"version"`
	StorageVersion string `json:"storageVersion"`

	// goesBack is true while etcd allows a downgrade.
	goesBack bool
}

// Enable allows a downgrade to a minor version, as in 3.6, and returns when all members have stored its form. It changes nothing if that
// was done already. progress gets a line about each step.
func Enable(ctx context.Context, client *clientv3.Client, target string, progress func(line string)) ([]Member, error) {
	to, err := version.ParseGeneric(target)
	if err != nil || len(to.Components()) < 2 {
		return nil, fmt.Errorf("%q is no version of etcd such as 3.6", target)
	}
	target = fmt.Sprintf("%d.%d.0", to.Major(), to.Minor())
	members, err := list(ctx, client)
	if err != nil {
		return nil, err
	}
	if err := checkTarget(members, to); err != nil {
		return nil, err
	}
	if Finished(members, target) {
		return members, nil
	}
	allowed := false
	err = wait.PollUntilContextCancel(ctx, askInterval, true, func(ctx context.Context) (bool, error) {
		now, err := list(ctx, client)
		if err != nil {
			return false, nil //nolint:nilerr // it is asked again
		}
		if members = now; isDone(members, target) {
			return true, nil
		}
		if allowed {
			return false, nil
		}
		if allowed, err = enable(ctx, client, target); allowed {
			progress("etcd may go back to " + target)
		}
		return false, err
	})
	if err != nil && wait.Interrupted(err) {
		return members, fmt.Errorf("%w: %s; run the command again, or take it back with --cancel", err, described(members))
	}
	return members, err
}

// checkTarget returns an error unless a version is that before the version of the members, or a server of it has taken over already.
func checkTarget(members []Member, target *version.Version) error {
	for _, member := range members {
		server, err := version.ParseSemantic(member.Version)
		if err != nil {
			return fmt.Errorf("member %s has version %q, which is none: %w", member.Name, member.Version, err)
		}
		if server.Major() != target.Major() || server.Minor() != target.Minor() && server.Minor() != target.Minor()+1 {
			return fmt.Errorf("etcd %s of member %s does not go back to %d.%d: only to the minor version before its own",
				member.Version, member.Name, target.Major(), target.Minor())
		}
	}
	return nil
}

// enable reports whether etcd now may go back. It may not while members have not agreed on their own version yet, which they do some
// seconds after they start.
func enable(ctx context.Context, client *clientv3.Client, target string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err := client.Downgrade(ctx, clientv3.DowngradeValidate, target)
	if err == nil {
		_, err = client.Downgrade(ctx, clientv3.DowngradeEnable, target)
	}
	switch {
	case err == nil, errors.Is(err, rpctypes.ErrDowngradeInProcess):
		return true, nil
	case errors.Is(err, rpctypes.ErrInvalidDowngradeTargetVersion), errors.Is(err, rpctypes.ErrClusterVersionUnavailable):
		return false, nil
	}
	return false, fmt.Errorf("etcd does not go back to %s: %w", target, err)
}

// Cancel ends the permission, and reports whether etcd had given one. Members then store the form of their own version again.
func Cancel(ctx context.Context, client *clientv3.Client) (cancelled bool, err error) {
	members, err := list(ctx, client)
	if err == nil && !slices.ContainsFunc(members, func(m Member) bool { return m.goesBack }) {
		return false, nil
	}
	// A member that does not answer keeps no permission from being ended.
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err = client.Downgrade(ctx, clientv3.DowngradeCancel, "")
	return err == nil, err
}

// Finished reports whether all servers are of a minor version already, as in 3.6.
func Finished(members []Member, target string) bool {
	to, err := version.ParseGeneric(target)
	return err == nil && !slices.ContainsFunc(members, func(m Member) bool {
		server, err := version.ParseSemantic(m.Version)
		return err != nil || server.Major() != to.Major() || server.Minor() != to.Minor()
	})
}

// list asks each member for its versions.
func list(ctx context.Context, client *clientv3.Client) ([]Member, error) {
	asking, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	all, err := client.MemberList(asking)
	if err != nil {
		return nil, fmt.Errorf("cannot list the members of etcd: %w", err)
	}
	var members []Member
	for _, member := range all.Members {
		if len(member.ClientURLs) == 0 {
			return nil, fmt.Errorf("member %s (%x) has not started: start it, or remove it from etcd", member.Name, member.ID)
		}
		status, err := client.Status(asking, member.ClientURLs[0])
		if err != nil {
			return nil, fmt.Errorf("member %s at %s does not answer, and all must store the older form: %w", member.Name, member.ClientURLs[0], err)
		}
		members = append(members, Member{
			Name: member.Name, Endpoint: member.ClientURLs[0], Version: status.Version, StorageVersion: status.StorageVersion,
			goesBack: status.DowngradeInfo.GetEnabled(),
		})
	}
	return members, nil
}

// isDone reports whether servers of the older version may take over. A member that has just started may still store the older form, but
// would not for long.
func isDone(members []Member, target string) bool {
	for _, member := range members {
		if member.StorageVersion != target || !member.goesBack && !strings.HasPrefix(member.Version, strings.TrimSuffix(target, "0")) {
			return false
		}
	}
	return true
}

func described(members []Member) string {
	all := make([]string, len(members))
	for i, member := range members {
		all[i] = fmt.Sprintf("%s stores that of %s", member.Name, member.StorageVersion)
	}
	return strings.Join(all, ", ")
}
