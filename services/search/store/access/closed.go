// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"time"

	"github.com/tripod-k8s/tripod/services/search/store/database"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// RBAC only adds rights. So a reader may lack an RBAC object, but must not keep one that has changed or is gone. If the writer of a stream
// cannot read what has become of the objects, it closes the rights that depend on all of them: a row of unreadable_rights without a name
// stands for the whole stream.

// CloseRights notes that the writer of a stream does not know what has become of its objects, and why, until its next list ends. If they
// are RBAC objects, the RBAC of the cluster decides nothing meanwhile. If they are Namespaces, rights show the past only where they have
// not changed since. The next writer lists.
func (s *Rights) CloseRights(ctx context.Context, stream *streams.Stream, reason string) error {
	return s.db.Within(ctx, func(t *database.Tx) error {
		if _, err := t.Revisions(ctx, 1); err != nil {
			return err
		}
		if err := streams.Hold(ctx, t, stream, time.Time{}); err != nil {
			return err
		}
		if err := t.All(ctx, t.SQL("UPDATE streams SET resource_version = '' WHERE id = ?", stream.ID)); err != nil {
			return err
		}
		closed, err := database.Value[int64](ctx, t, t.SQL("SELECT COUNT(*) FROM unreadable_rights WHERE stream_id = ? AND name = ''", stream.ID))
		if err != nil || closed > 0 {
			return err
		}
		row := []any{stream.ID, "", "", int64(0), speakableReason(reason)}
		if err := t.Insert(ctx, "unreadable_rights", []string{"stream_id", "namespace", "name", "listing", "reason"}, [][]any{row},
			""); err != nil {
			return err
		}
		return ChangeRightsOf(ctx, t, stream)
	})
}

// OpenRights ends what CloseRights began.
func OpenRights(ctx context.Context, t *database.Tx, stream *streams.Stream) error {
	opened, err := t.Exec(ctx, t.SQL("DELETE FROM unreadable_rights WHERE stream_id = ? AND name = ''", stream.ID))
	if err != nil || opened == 0 {
		return err
	}
	return ChangeRightsOf(ctx, t, stream)
}
