// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tripod-k8s/tripod/lab/e2esuite"
	"github.com/tripod-k8s/tripod/test/framework"
)

// suiteSpecs returns all specs of the groups in Kubernetes' suite.
func suiteSpecs(ctx context.Context) (_ []string, err error) {
	env, err := framework.New("conformance")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, env.Close(false)) }()
	found, err := e2esuite.Run{Name: "list", Dir: env.Dir, Labels: strings.Join(groups, " || ")}.List(ctx, env)
	return slices.Sorted(maps.Keys(found)), err
}

// runner runs specs on one side, and keeps the results by version.
type runner struct {
	*options
	side string
	// suite has all specs of the suite.
	suite []string
	// attempts is how often a spec may run until it passes.
	attempts int
	// again returns which of the specs have to run.
	again func(*e2esuite.Kept, []string) []string
}

// results returns what came of the specs. It runs those that have to run, a setting after the other. If it is interrupted, it also returns what came
// of those that ran.
func (r runner) results(ctx context.Context, o *options, side string, suite, specs []string) (e2esuite.Results, error) {
	r.options, r.side, r.suite = o, side, suite
	version, err := framework.VersionOf(ctx, programs[side])
	if err != nil {
		return nil, err
	}
	found, ofSetting := e2esuite.Results{}, bySetting(specs)
	for _, s := range allSettings {
		if len(ofSetting[s]) == 0 {
			continue
		}
		k, err := e2esuite.OpenKept(o.kept, o.form(side)+"-"+s.name, version, "")
		if err != nil {
			return found, err
		}
		err = r.run(ctx, s, k, r.again(k, ofSetting[s]))
		maps.Copy(found, k.Of(ofSetting[s]))
		if err != nil {
			return found, err
		}
	}
	return found, nil
}

// form returns under which name results are kept.
func (o *options) form(side string) string {
	if o.divided && side == tripod {
		return "partitions"
	}
	return side
}

// run runs specs in a setting.
func (r runner) run(ctx context.Context, s *setting, k *e2esuite.Kept, specs []string) (err error) {
	if len(specs) == 0 {
		return nil
	}
	number, err := k.NextRun()
	if err != nil {
		return err
	}
	c, err := startCluster(ctx, r.options, r.side, s, r.suite)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Err, c.close()) }()
	found, err := e2esuite.Run{
		Name: fmt.Sprintf("%02d", number), Dir: k.Dir, Kubeconfig: c.Kubeconfig, Nodes: len(nodes),
		Focus: e2esuite.Exactly(specs), Procs: r.procs, Attempts: r.attempts, Timeout: r.timeout,
		Ended: func(e e2esuite.Ended) {
			fmt.Printf("%s %d/%d %s %s\n", k.Form, e.Number, len(specs), e.Outcome, e.Name)
			k.Ended(e, specs)
		},
	}.Do(ctx, c.env)
	c.failed = err != nil && ctx.Err() == nil || found.Count() < len(found)
	if err != nil {
		return err
	}
	return k.Add(found)
}
