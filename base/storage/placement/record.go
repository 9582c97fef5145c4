// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"encoding/json"
	"fmt"
	"path"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Record says in an etcd whether it has the objects of an API group. The shared etcd has one for each group that was ever in an etcd of its
// own. Such an etcd has one for each group. Replicas use an etcd only if both agree on it: a client that may write to one of them moves no
// group.
type Record struct {
	// Own says that the objects are in the etcd of the group's own, or, in that etcd, that it is open for them.
	Own bool `json:"own"`
	// Move names the move that brought the objects where they are. Both etcds have the same.
	Move string `json:"move"`
	// Floor is the first resourceVersion after that move, in the etcd that has the objects now. What clients have from before says nothing
	// about that etcd.
	Floor int64 `json:"floor,omitempty"`
	// Left says, in the etcd of the group's own, that the objects have gone back, and may be deleted there.
	Left bool `json:"left,omitempty"`
	// Pending says, in the etcd that gets the objects, that the move has not ended: the other etcd may not know of it yet, and Floor is not
	// known. Any replica that has both etcds ends it. Without Pending, a shared etcd that says otherwise than the group's own has lost its
	// record, or another user of etcd has changed it.
	Pending bool `json:"pending,omitempty"`
	// Service names, in the shared etcd, the API service that has the objects. Own is true then, so that replicas of versions without this
	// field serve nothing of the group.
	Service string `json:"service,omitempty"`
	// Switching says that the objects go to an API service, or have come from one, and no client can write them: both answer reads, until
	// clients are led to the next owner. Move and Floor are those of before, or of the way back.
	Switching bool `json:"switching,omitempty"`
	// Back names the move that brings the objects of Service back. Only that move may write them, before it switches.
	Back string `json:"back,omitempty"`
	// Abandoned says, with Switching, that nothing was copied back, because the service seemed to be gone for good.
	Abandoned bool `json:"abandoned,omitempty"`
}

// IsAway reports whether an API service has the objects, and replicas serve nothing of them.
func (s State) IsAway() bool { return s.Record.IsAway() }

// IsAway reports whether an API service has the objects, and replicas serve nothing of them.
func (r *Record) IsAway() bool { return r != nil && r.Service != "" && !r.Switching }

// inPlace returns the record without what a replica need not list again for: while a move to or from an API service switches, and until it
// has ended, the shared etcd has the same objects.
func (r Record) inPlace() Record {
	if r.Switching {
		r.Own, r.Service, r.Switching, r.Back, r.Abandoned = false, "", false, "", false
	}
	return r
}

// IsHome reports whether an etcd of a group's own has the objects, whatever the shared one says.
func (s State) IsHome() bool {
	return s.IsOwn() && !s.Record.Left && !s.Record.Pending
}

// IsClosed reports whether an etcd of a group's own still has a record as of a move back that has not noted yet that the objects have left.
func (s State) IsClosed() bool {
	return s.Record != nil && !s.Record.Own && !s.Record.Left
}

// Keys are where the state of an API group is. No resource has a name with a dot, so they are no objects, and a client that may write the
// objects of the group may write them.
type Keys struct {
	// Objects is the directory of the group.
	Objects string
	// Fence is the directory of Record and Pause. Each write of an object makes sure that nothing has changed there.
	Fence string
	// Record is the key of a Record. While Pause exists, etcd refuses writes of objects.
	Record, Pause string
	// Reader has the name of the partition whose replicas take the group from this etcd, once the group is there.
	Reader string
	// Mover exists while a move works on the group. It is not in the fence: writes of objects go on.
	Mover string
	// Raised is written to raise the revision of etcd.
	Raised string
}

// KeysOf returns the keys of an API group below the prefix of a service, /registry.
func KeysOf(prefix, group string) Keys {
	objects := path.Join("/", prefix, group) + "/"
	fence := objects + ".placement/"
	return Keys{
		Objects: objects, Fence: fence, Record: fence + "record", Pause: fence + "pause", Reader: objects + ".reader", Mover: objects + ".mover",
		Raised: objects + ".raised",
	}
}

// ObjectRange returns the range of the keys of all objects. Names of resources begin with a letter.
func (k Keys) ObjectRange() (first, end string) { return k.Objects + "a", k.Objects + "{" }

// Empty is true if there are no objects.
func (k Keys) Empty() clientv3.Cmp {
	first, end := k.ObjectRange()
	return clientv3.Compare(clientv3.CreateRevision(first), "=", 0).WithRange(end)
}

// Unchanged is true if nothing has changed in the fence since a revision.
func (k Keys) Unchanged(since int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(k.Fence), "<", since+1).WithPrefix()
}

// RecordUnchanged is true if the record has not changed since a revision.
func (k Keys) RecordUnchanged(since int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(k.Record), "<", since+1)
}

// State is what an etcd has about an API group.
type State struct {
	// Record is nil if there is none.
	Record *Record
	Paused bool
	// Reader is the content of the key.
	Reader string
	// HasObjects is set if there are any.
	HasObjects bool
	// Revision is that of the etcd.
	Revision int64
}

// Read reads the state.
func (k Keys) Read(ctx context.Context, etcd clientv3.KV) (State, error) {
	first, end := k.ObjectRange()
	answer, err := etcd.Txn(ctx).Then(
		clientv3.OpGet(k.Record), clientv3.OpGet(k.Pause, clientv3.WithKeysOnly()), clientv3.OpGet(k.Reader),
		clientv3.OpGet(first, clientv3.WithRange(end), clientv3.WithLimit(1), clientv3.WithKeysOnly()),
	).Commit()
	if err != nil {
		return State{}, err
	}
	found := func(i int) []string {
		var values []string
		for _, kv := range answer.Responses[i].GetResponseRange().GetKvs() {
			values = append(values, string(kv.Value))
		}
		return values
	}
	s := State{Paused: len(found(1)) > 0, HasObjects: len(found(3)) > 0, Revision: answer.Header.GetRevision()}
	if reader := found(2); len(reader) > 0 {
		s.Reader = reader[0]
	}
	if record := found(0); len(record) > 0 {
		s.Record = &Record{}
		if err := json.Unmarshal([]byte(record[0]), s.Record); err != nil {
			return State{}, fmt.Errorf("cannot read %s in etcd: %w", k.Record, err)
		}
	}
	return s, nil
}

// IsOwn reports whether the shared etcd says that the objects are in an etcd of their own.
func (s State) IsOwn() bool { return s.Record != nil && s.Record.Own && s.Record.Service == "" }

// record returns the record, or its zero value if there is none.
func (s State) record() Record {
	if s.Record == nil {
		return Record{}
	}
	return *s.Record
}

// Put returns the write of a record.
func (k Keys) Put(r Record) clientv3.Op {
	data, _ := json.Marshal(r) // strings and numbers can always be marshalled
	return clientv3.OpPut(k.Record, string(data))
}
