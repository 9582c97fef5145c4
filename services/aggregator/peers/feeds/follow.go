// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package feeds

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tripod-k8s/tripod/base/hop/follow"
	backendv1 "github.com/tripod-k8s/tripod/proto/backend/v1"
)

// silence is how long a feed may send nothing. A replica sends a heartbeat every 400 ms, or every 1.2 s while it gets no requests.
const silence = 3 * time.Second

// What a replica may claim. Each group-version becomes an APIService, whose name has the form VERSION.GROUP.
const (
	maxGroupVersions = 10_000
	maxGroup         = validation.DNS1123SubdomainMaxLength
	maxVersion       = validation.DNS1035LabelMaxLength
	// maxLongRunning limits the long-running subresources of a group-version, and maxSubresource the length of the name of one.
	maxLongRunning = 1_000
	maxSubresource = 2*validation.DNS1123SubdomainMaxLength + 1
)

// refuse returns an error for a catalog that no honest replica sends. The aggregator remembers what is in a catalog.
func refuse(catalog *backendv1.Catalog) error {
	if n := len(catalog.GetGroupVersions()); n > maxGroupVersions {
		return fmt.Errorf("the replica claims %d group-versions, and may have %d", n, maxGroupVersions)
	}
	for _, gv := range catalog.GetGroupVersions() {
		if group, version := len(gv.GetGroup()), len(gv.GetVersion()); group > maxGroup || version > maxVersion {
			return fmt.Errorf("the replica claims a group-version with names of %d and %d characters; they may have %d and %d", group, version,
				maxGroup, maxVersion)
		}
		if n := len(gv.GetLongRunning()); n > maxLongRunning {
			return fmt.Errorf("the replica claims %d long-running subresources of a group-version, and may have %d", n, maxLongRunning)
		}
		for _, name := range gv.GetLongRunning() {
			if len(name) > maxSubresource {
				return fmt.Errorf("the replica claims a long-running subresource with a name of %d characters; it may have %d",
					len(name), maxSubresource)
			}
		}
	}
	return nil
}

// follow reads the feed of the replica at an address until the context ends. The replica serves its feed at another port. The follower may
// learn that port late, and it may change.
func (f *Follower) follow(ctx context.Context, address string, r *replica) {
	stream := follow.Stream{
		Name: "feed of " + f.config.Backend.Name(),
		Addresses: func() []string {
			if at, ok := f.config.Locate(address); ok {
				return []string{at}
			}
			return nil
		},
		Dial:    f.config.Dial,
		Silence: silence,
		Spare:   func(string) bool { return f.config.Backend.Spare(address) },
		Run: func(reading context.Context, session *follow.Session) error {
			defer func() { // also after a panic
				if ctx.Err() == nil {
					f.lose(address, r)
				}
			}()
			return f.read(reading, session, address, r)
		},
	}
	stream.Follow(ctx)
}

// read reads one stream to its end.
func (f *Follower) read(ctx context.Context, session *follow.Session, address string, r *replica) error {
	stream, err := backendv1.NewBackendClient(session.Conn).Watch(ctx, &backendv1.WatchRequest{})
	if err != nil {
		return err
	}
	for {
		message, err := stream.Recv()
		if err != nil {
			return err
		}
		if err := refuse(message.GetCatalog()); err != nil {
			return err
		}
		session.Alive()
		f.handle(address, r, message)
	}
}
