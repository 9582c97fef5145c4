// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package maintenance shows the members of an etcd, and defragments them one after the other.
package maintenance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tripod-k8s/tripod/admin/etcd/access"
)

const (
	// requestTimeout is how long a member may take for an answer.
	requestTimeout = 5 * time.Second
	// maxRaftLag is how many entries a member may be behind. etcd itself refuses writes at this gap.
	maxRaftLag = 5000
)

// Member is a member of an etcd, and how it is.
type Member struct {
	Name string `json:"name"`
	// ID is the number of the member, in hexadecimal digits as etcd prints it.
	ID string `json:"id"`
	// Endpoint is the URL at which the member was asked.
	Endpoint string `json:"endpoint,omitempty"`
	Version  string `json:"version,omitempty"`
	Leader   bool   `json:"leader"`
	Learner  bool   `json:"learner,omitempty"`
	// DBSize is the size of the database in bytes. DBSizeInUse is what would remain after a defragmentation. DBQuota is the largest size, or 0
	// if the member does not report it, as before etcd 3.6.
	DBSize      int64 `json:"dbSize"`
	DBSizeInUse int64 `json:"dbSizeInUse"`
	DBQuota     int64 `json:"dbQuota,omitempty"`
	// RaftLag is the number of log entries that another member has and this one has not applied yet.
	RaftLag  uint64 `json:"raftLag"`
	RaftTerm uint64 `json:"raftTerm,omitempty"`
	// Alarms are those that etcd has raised for this member, such as NOSPACE and CORRUPT.
	Alarms []string `json:"alarms,omitempty"`
	// Problem says why the member is not healthy. It is empty if the member is healthy, whatever its alarms are.
	Problem string `json:"problem,omitempty"`

	id, leader, applied, index uint64
}

// Status asks all members of an etcd. Members at none of the client's endpoints are asked at the first URL that they advertise. It fails
// only if no member returns the list of members. If it has to wait for that, waiting gets a line about it, unless it is nil.
func Status(ctx context.Context, client *clientv3.Client, waiting func(line string)) ([]Member, error) {
	list, err := memberList(ctx, client, waiting)
	if err != nil {
		return nil, err
	}
	at := endpointsByID(ctx, client)
	members := make([]Member, len(list))
	var asking sync.WaitGroup
	for i, member := range list {
		members[i] = Member{
			Name: member.Name, ID: fmt.Sprintf("%x", member.ID), Learner: member.IsLearner, Endpoint: at[member.ID], id: member.ID,
		}
		if members[i].Endpoint == "" && len(member.ClientURLs) > 0 {
			members[i].Endpoint = member.ClientURLs[0]
		}
		asking.Go(func() { members[i].ask(ctx, client) })
	}
	asking.Wait()
	addAlarms(ctx, client, members)
	judge(members)
	slices.SortFunc(members, func(a, b Member) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.id, b.id)) })
	return members, nil
}

// Problems returns an error that names each member with a problem, or nil.
func Problems(members []Member) error {
	var problems []string
	for _, member := range members {
		if member.Problem != "" {
			problems = append(problems, fmt.Sprintf("member %s is not healthy: %s", member.label(), member.Problem))
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return errors.New(strings.Join(problems, "; "))
}

// label names a member. One that has never started has no name.
func (m *Member) label() string {
	return cmp.Or(m.Name, m.ID)
}

// memberList returns the members. If they have no majority, it is the list that the first answering member has.
func memberList(ctx context.Context, client *clientv3.Client, waiting func(line string)) ([]*pb.Member, error) {
	var last error
	defer saySoon(ctx, client.Endpoints(), waiting)()
	for _, options := range [][]clientv3.OpOption{nil, {clientv3.WithSerializable()}} {
		asking, cancel := context.WithTimeout(ctx, requestTimeout)
		list, err := client.MemberList(asking, options...)
		cancel()
		if err == nil {
			return list.Members, access.CheckEtcd(ctx, client)
		}
		last = err
	}
	at := strings.Join(client.Endpoints(), ",")
	if err := unreachable(context.WithoutCancel(ctx), client.Endpoints()); err != nil {
		return nil, fmt.Errorf("etcd at %s cannot be reached: %w", at, err)
	}
	return nil, fmt.Errorf("etcd at %s does not list its members (certificates?): %w", at, last)
}

// endpointsByID returns which member is at which endpoint of the client. Endpoints that do not answer, or lead to several members, are left
// out.
func endpointsByID(ctx context.Context, client *clientv3.Client) map[uint64]string {
	var mu sync.Mutex
	found := map[uint64]string{}
	var asking sync.WaitGroup
	for _, endpoint := range client.Endpoints() {
		asking.Go(func() {
			if status, err := statusOf(ctx, client, endpoint); err == nil {
				mu.Lock()
				defer mu.Unlock()
				found[status.Header.GetMemberId()] = endpoint
			}
		})
	}
	asking.Wait()
	return found
}

func statusOf(ctx context.Context, client *clientv3.Client, endpoint string) (*clientv3.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return client.Status(ctx, endpoint)
}

// ask completes a member by what it says about itself.
func (m *Member) ask(ctx context.Context, client *clientv3.Client) {
	if m.Endpoint == "" {
		m.Problem = "it has not started: start it, or remove it from etcd"
		return
	}
	status, err := statusOf(ctx, client, m.Endpoint)
	if err != nil {
		m.Problem = fmt.Sprintf("it does not answer at %s: %v", m.Endpoint, err)
		return
	}
	if status.Header.GetMemberId() != m.id {
		m.Problem = fmt.Sprintf("another member answers at %s", m.Endpoint)
		return
	}
	m.Version, m.Leader, m.Learner = status.Version, status.Leader == m.id, status.IsLearner
	m.DBSize, m.DBSizeInUse, m.DBQuota = status.DbSize, status.DbSizeInUse, status.DbSizeQuota
	m.leader, m.RaftTerm, m.index, m.applied = status.Leader, status.RaftTerm, status.RaftIndex, status.RaftAppliedIndex
}

// addAlarms adds the alarms of members. Only a majority knows them.
func addAlarms(ctx context.Context, client *clientv3.Client, members []Member) {
	if !slices.ContainsFunc(members, func(m Member) bool { return m.leader != 0 }) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := client.AlarmList(ctx)
	for i := range members {
		m := &members[i]
		if err != nil {
			if m.Problem == "" {
				m.Problem = fmt.Sprintf("its alarms are not known: %v", err)
			}
			continue
		}
		for _, alarm := range list.Alarms {
			if alarm.MemberID == m.id {
				m.Alarms = append(m.Alarms, alarm.Alarm.String())
			}
		}
	}
}

// judge compares members with one another.
func judge(members []Member) {
	var index, leader uint64
	for _, m := range members {
		index = max(index, m.index)
		if m.Leader {
			leader = m.id
		}
	}
	for i := range members {
		m := &members[i]
		if m.Problem != "" {
			continue
		}
		if index > m.applied {
			m.RaftLag = index - m.applied
		}
		switch {
		case m.leader == 0:
			m.Problem = "it knows no leader"
		case m.leader != leader:
			m.Problem = fmt.Sprintf("it takes %x for the leader, which does not say so", m.leader)
		case m.RaftLag > maxRaftLag:
			m.Problem = fmt.Sprintf("it is %d entries behind", m.RaftLag)
		}
	}
}
