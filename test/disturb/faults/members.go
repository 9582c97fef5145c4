// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tripod-k8s/tripod/test/framework"
)

// members are faults of one of three etcd members, the leader or a follower.
func members() []fault {
	// etcd answers after 7 s if it has no leader.
	const shows = 10 * time.Second
	// Services send requests to a member that is cut off, too, and these wait.
	cutMember := slices.Concat(symptoms, []string{storageDown, replicaDown, backendDown, tokensUnknown, identityLags})
	leader, follower := end{"the leader", []string{"leader"}}, end{"a follower", []string{"follower-0"}}
	followers, others := end{"the followers", []string{"follower-0", "follower-1"}}, end{"the others", []string{"leader", "follower-1"}}
	all := slices.Concat(
		[]fault{
			kill("the leader", on3, false, "leader").fires(memberDown).mayFire(symptoms...),
			kill("a follower", on3, false, "follower-0").fires(memberDown).mayFire(slower...),
			stop("the leader", on3, false, "leader").fires(memberDown).mayFire(symptoms...),
		},
		expecting(expectation{must: []string{noLeader}, may: cutMember}, later(shows, leader.from(followers, on3))),
		expecting(expectation{must: []string{noLeader}, may: cutMember}, later(shows, []fault{
			partition(follower.name+" ⇹ "+others.name, on3, [2]end{follower, others}, [2]end{others, follower}),
		})),
		[]fault{slowDisk("the leader", on3, "leader"), slowDisk("a follower", on3, "follower-0")},
	)
	for i := range all {
		all[i].group = "members"
	}
	return all
}

// startEtcd starts an etcd with fsync on. Each member has its own disk.
func (c *cluster) startEtcd(ctx context.Context) error {
	var all []string
	for i := range c.side.members {
		name := fmt.Sprintf("%s-%d", etcd, i)
		h, err := c.machine.host(ctx, name)
		if err != nil {
			return err
		}
		c.roles[etcd] = append(c.roles[etcd], name)
		all = append(all, name+"=http://"+h.address+":2380")
	}
	for _, name := range c.roles[etcd] {
		if err := c.startMember(ctx, name, strings.Join(all, ",")); err != nil {
			return err
		}
	}
	for _, name := range c.roles[etcd] {
		if err := framework.Poll(ctx, name+" is healthy", ok(http.DefaultClient, c.memberURL(name)+"/health")); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) startMember(ctx context.Context, name, all string) (err error) {
	h, data := c.machine.hosts[name], filepath.Join(c.environment.Dir, name)
	if c.machine.noDisk == "" {
		if h.disk, err = c.machine.disk(ctx, name); err != nil {
			c.machine.noDisk = err.Error()
		} else {
			data = filepath.Join(h.disk.dir, "data")
		}
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	peers := "http://" + h.address + ":2380"
	_, err = c.program(h, name, "test-assets/etcd", "--name="+name, "--data-dir="+data, "--log-level=warn",
		"--listen-client-urls="+c.memberURL(name), "--advertise-client-urls="+c.memberURL(name),
		"--listen-peer-urls="+peers, "--initial-advertise-peer-urls="+peers, "--initial-cluster="+all)
	return err
}

func (c *cluster) memberURL(name string) string {
	return "http://" + c.machine.hosts[name].address + ":2379"
}

// etcdURLs returns the addresses of all members, in the form of flags.
func (c *cluster) etcdURLs() string {
	var urls []string
	for _, name := range c.roles[etcd] {
		urls = append(urls, c.memberURL(name))
	}
	return strings.Join(urls, ",")
}

// findLeader updates the roles leader and follower-N.
func (c *cluster) findLeader(ctx context.Context) error {
	if c.side.members == 1 {
		return nil
	}
	return framework.Poll(ctx, "etcd has a leader", func(ctx context.Context) error {
		var leaders, followers []string
		for _, name := range c.resolve([]string{etcd}) {
			leads, err := c.leads(ctx, name)
			switch {
			case err != nil:
				return err
			case leads:
				leaders = append(leaders, name)
			default:
				followers = append(followers, name)
			}
		}
		if len(leaders) != 1 {
			return fmt.Errorf("%d members lead", len(leaders))
		}
		c.roles["leader"] = leaders
		for i := range followers {
			c.roles[fmt.Sprintf("follower-%d", i)] = followers[i : i+1]
		}
		return nil
	})
}

// leads reports whether a member is the leader by its own status.
func (c *cluster) leads(ctx context.Context, member string) (bool, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.memberURL(member)+"/metrics", nil)
	if err != nil {
		return false, err
	}
	resp, err := c.direct.Do(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		switch lines.Text() {
		case "etcd_server_is_leader 1":
			return true, nil
		case "etcd_server_is_leader 0":
			return false, nil
		}
	}
	return false, errors.New(member + " does not say whether it leads")
}
