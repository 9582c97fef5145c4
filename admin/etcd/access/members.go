// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tripod-k8s/tripod/base/storage/etcdversion"
)

// checkMembers returns an error unless each member of etcd keeps users to their keys: one old member is enough to read everything. It
// asks members at the endpoints of the client, and at the URLs that they advertise.
func checkMembers(ctx context.Context, client *clientv3.Client) error {
	list, err := client.MemberList(ctx)
	if err != nil {
		return fmt.Errorf("cannot list the members of etcd: %w", err)
	}
	silent := map[uint64]string{}
	endpoints := client.Endpoints()
	for _, member := range list.Members {
		silent[member.ID] = fmt.Sprintf("%s (%x)", member.Name, member.ID)
		endpoints = append(endpoints, member.ClientURLs...)
	}
	var errs []error
	asked := map[string]bool{}
	for _, endpoint := range endpoints {
		if asked[endpoint] {
			continue
		}
		asked[endpoint] = true
		status, err := statusOf(ctx, client, endpoint)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", endpoint, err))
			continue
		}
		if err := etcdversion.CheckRanges(status.Version); err != nil {
			return fmt.Errorf("nothing is changed, because users would not keep services apart at %s: %w", endpoint, err)
		}
		delete(silent, status.Header.MemberId)
	}
	if len(silent) > 0 {
		// A member that was added and never started has no address to ask.
		unknown := fmt.Errorf("nothing is changed, because the version of these members of etcd is unknown: "+
			"%s; start them, or remove them from etcd", strings.Join(slices.Sorted(maps.Values(silent)), ", "))
		return errors.Join(append([]error{unknown}, errs...)...)
	}
	return nil
}

func statusOf(ctx context.Context, client *clientv3.Client, endpoint string) (*clientv3.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return client.Status(ctx, endpoint)
}
