// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tripod-k8s/tripod/lab/bench/process"
	"github.com/tripod-k8s/tripod/test/framework"
)

const (
	// syncLimit is how long a first copy may take.
	syncLimit = 30 * time.Minute
	// settle is how long a side rests before its memory counts, and restTime how long its processor time at rest is measured.
	settle   = 10 * time.Second
	restTime = 15 * time.Second
)

// member is a kube-apiserver with applications.
type member struct {
	*framework.Stock
	name string
	n    int
	apps int
	etcd *clientv3.Client
}

// startMembers starts kube-apiservers, and writes applications into their etcd.
func (b *benchmark) startMembers(ctx context.Context) (all []*member, err error) {
	for n := range members {
		m := &member{name: fmt.Sprintf("member-%d", n), n: n, apps: b.objects / members / appSize}
		if m.Stock, err = b.environment.StartStock(ctx, framework.StockOptions{}); err != nil {
			return nil, err
		}
		if m.etcd, err = clientv3.New(clientv3.Config{Endpoints: []string{m.EtcdURL}}); err != nil {
			return nil, err
		}
		all = append(all, m)
		logf("%s gets %d objects", m.name, m.apps*appSize)
		if err := fill(ctx, m.etcd, n, m.apps); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// firstSync is what the first copy of the members has cost.
type firstSync struct {
	Seconds float64
	// CPU is the processor time of the process that copies, and of PostgreSQL, in seconds.
	CPU, PostgresCPU float64
	// MembersCPU is the processor time of the kube-apiservers of the members, in seconds.
	MembersCPU float64
	// Empty is the resident memory in MB before, Peak the most until the end, and Rest that some time later.
	Empty, Peak, Rest float64
	// DatabaseMB is the size of the database.
	DatabaseMB float64
	// RestCPU is the processor time in per cent of a CPU afterwards, while nothing changes: of both processes, and of PostgreSQL.
	RestCPU, RestPostgresCPU float64
}

// firstSync has a side copy the members.
func (b *benchmark) firstSync(ctx context.Context, s *side, all []*member, want int) (f firstSync, err error) {
	if err := ctxRest(ctx, settle); err != nil {
		return f, err
	}
	if f.Empty, _, err = s.copier().Resident(); err != nil {
		return f, err
	}
	membersBegan, err := membersCPU(all)
	if err != nil {
		return f, err
	}
	began, err := b.spent(s)
	if err != nil {
		return f, err
	}
	for _, m := range all {
		kubeconfig, err := framework.PortableKubeconfig(m.Admin())
		if err != nil {
			return f, err
		}
		if err := s.add(ctx, m.name, kubeconfig); err != nil {
			return f, err
		}
	}
	if err := s.awaitObjects(ctx, want); err != nil {
		return f, err
	}
	ended, err := b.spent(s)
	if err != nil {
		return f, err
	}
	membersEnded, err := membersCPU(all)
	if err != nil {
		return f, err
	}
	f.MembersCPU = (membersEnded - membersBegan).Seconds()
	f.Seconds, f.CPU, f.PostgresCPU = ended.at.Sub(began.at).Seconds(), (ended.copies - began.copies).Seconds(), (ended.postgres - began.postgres).Seconds()
	if err := ctxRest(ctx, settle); err != nil {
		return f, err
	}
	if f.Rest, f.Peak, err = s.copier().Resident(); err != nil {
		return f, err
	}
	if err := s.db.QueryRowContext(ctx, "SELECT pg_database_size(current_database()) / 1e6").Scan(&f.DatabaseMB); err != nil {
		return f, err
	}
	if began, err = b.spent(s); err != nil {
		return f, err
	}
	if err := ctxRest(ctx, restTime); err != nil {
		return f, err
	}
	if ended, err = b.spent(s); err != nil {
		return f, err
	}
	percent := func(d time.Duration) float64 { return 100 * d.Seconds() / ended.at.Sub(began.at).Seconds() }
	f.RestCPU, f.RestPostgresCPU = percent(ended.copies-began.copies+ended.serves-began.serves), percent(ended.postgres-began.postgres)
	return f, nil
}

// membersCPU is the processor time of the kube-apiservers of the members.
func membersCPU(all []*member) (sum time.Duration, err error) {
	for _, m := range all {
		spent, err := process.Process{Service: m.name, PID: m.Process.PID()}.CPU()
		if err != nil {
			return 0, err
		}
		sum += spent
	}
	return sum, nil
}

// awaitObjects returns when a side has all objects.
func (s *side) awaitObjects(ctx context.Context, want int) error {
	reported := time.Now()
	return until(ctx, fmt.Sprintf("%s has %d objects", s.name, want), syncLimit, func() (bool, error) {
		has, err := s.objects(ctx)
		if err != nil {
			return false, err
		}
		if time.Since(reported) > 10*time.Second {
			logf("%s has %d of %d objects", s.name, has, want)
			reported = time.Now()
		}
		return has >= want, fmt.Errorf("it has %d", has)
	})
}

// spent is processor time until a moment.
type spent struct {
	at                       time.Time
	copies, serves, postgres time.Duration
}

func (b *benchmark) spent(s *side) (now spent, err error) {
	now.at = time.Now()
	if now.copies, err = s.copier().CPU(); err != nil {
		return now, err
	}
	if now.serves, err = s.server().CPU(); err != nil {
		return now, err
	}
	now.postgres, err = b.postgresCPU()
	return now, err
}
