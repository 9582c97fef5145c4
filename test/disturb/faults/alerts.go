// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tripod-k8s/tripod/test/framework"
)

const (
	// alertsBefore is how long all is well before a fault, for the rules five minutes.
	alertsBefore = 10 * time.Second
	// alertsLast is how long a fault lasts at least while alerts are watched, for the rules twenty minutes. Alerts about faults wait for ten
	// minutes at most, on top of a window of five.
	alertsLast = 40 * time.Second
)

// The alerts of the chart that faults fire.
const (
	serviceDown    = "TripodServiceDown"
	aggregatorDown = "TripodAggregatorDown"
	storageDown    = "TripodStorageDown"
	backendDown    = "TripodBackendDown"
	replicaDown    = "TripodReplicaDown"
	replicaBusy    = "TripodReplicaBusy"
	replicaEjected = "TripodReplicaEjected"
	retriesEnd     = "TripodRetriesExhausted"
	apiServiceGone = "TripodAPIServiceUnavailable"
	tokensUnknown  = "TripodTokensUnknown"
	identityLags   = "TripodIdentityLags"
	serverErrors   = "TripodErrors"
	slowRequests   = "TripodSlow"
	memberDown     = "TripodEtcdMemberDown"
	noLeader       = "TripodEtcdNoLeader"
	etcdSlowDisk   = "TripodEtcdSlowDisk"
	readsBurn      = "TripodReadsBurn"
	writesBurn     = "TripodWritesBurn"
	watchesBurn    = "TripodWatchesBurn"
	customBurn     = "TripodCustomResourcesBurn"
)

// symptoms fire if many requests fail or are slow, and slower fires if some do, as on a small machine at the moment at which a replica goes away.
// Whether they do depends on the load and on the machine.
var (
	slower   = []string{slowRequests, readsBurn, writesBurn, watchesBurn, customBurn}
	symptoms = slices.Concat(slower, []string{serverErrors, retriesEnd})
	// backendGoes fire in the moments in which the last replica of a backend goes, or the first one comes back. Then TripodBackendDown is not
	// there.
	backendGoes = []string{replicaEjected, identityLags}
)

// What fires if one of two replicas is away, all replicas of a service, or etcd.
var (
	replicaAway     = expectation{must: []string{replicaDown}, may: slower}
	aggregatorAway  = expectation{must: []string{aggregatorDown}, may: slower}
	aggregatorsAway = expectation{must: []string{serviceDown, aggregatorDown}, may: symptoms}
	coreAway        = expectation{must: []string{backendDown}, may: slices.Concat(symptoms, backendGoes, []string{tokensUnknown})}
	extensionsAway  = expectation{must: []string{backendDown}, may: slices.Concat(symptoms, backendGoes)}
	etcdAway        = expectation{must: []string{memberDown, storageDown}, may: slices.Concat(symptoms, backendGoes, withoutEtcd)}
)

// withoutEtcd may fire if services lack etcd: while their own checks of it do not fail yet, and if a service cannot answer a scrape.
var withoutEtcd = []string{backendDown, replicaDown, replicaBusy, tokensUnknown, aggregatorDown, serviceDown}

// expectation says which alerts fire during a fault. Each of must fires, and each of may can. All others are wrong.
type expectation struct{ must, may []string }

// fires sets the alerts that a fault must fire.
func (f fault) fires(alerts ...string) fault {
	f.alerts.must = alerts
	return f
}

// mayFire sets the alerts that it may fire besides.
func (f fault) mayFire(alerts ...string) fault {
	f.alerts.may = alerts
	return f
}

// with sets all of them.
func (f fault) with(e expectation) fault {
	f.alerts = e
	return f
}

// alone sets what holds where each service has one replica.
func (f fault) alone(alone expectation) fault {
	f.alertsAlone = &alone
	return f
}

// expects returns what holds on a side.
func (f fault) expects(s side) expectation {
	if f.alertsAlone != nil && s.replicas == 1 {
		return *f.alertsAlone
	}
	return f.alerts
}

// judge returns what is wrong with the alerts that fired.
func (e expectation) judge(fired []firing) []string {
	var wrong []string
	for _, alert := range e.must {
		if !slices.ContainsFunc(fired, func(f firing) bool { return f.Alert == alert }) {
			wrong = append(wrong, alert+" did not fire")
		}
	}
	for _, f := range fired {
		switch {
		case f.After < 0:
			wrong = append(wrong, f.Alert+" fired before the fault")
		case !slices.Contains(e.must, f.Alert) && !slices.Contains(e.may, f.Alert):
			wrong = append(wrong, f.Alert+" fired, which says nothing about this fault")
		}
	}
	return wrong
}

// alertResult is what the alerts did during one fault.
type alertResult struct {
	Fault string `json:"fault"`
	Side  string `json:"side"`
	// LeftOut says why the fault was not tried, or is empty.
	LeftOut string   `json:"leftOut,omitempty"`
	Fired   []firing `json:"fired"`
	// Wrong has the alerts that should not have fired, or should have, and everything else that must not happen.
	Wrong []string `json:"wrong,omitempty"`
}

// String returns the result in one line.
func (r alertResult) String() string {
	return strings.Join([]string{r.Fault, r.Side, r.alerts()}, " | ")
}

// alerts returns the alerts as the table has them, and what is wrong.
func (r alertResult) alerts() string {
	if r.LeftOut != "" {
		return "left out: " + r.LeftOut
	}
	var all []string
	for _, f := range r.Fired {
		all = append(all, fmt.Sprintf("%s (%.0f)", f.Alert, f.After.Minutes()))
	}
	if len(all) == 0 {
		all = []string{"none"}
	}
	for _, wrong := range r.Wrong {
		all = append(all, "**"+wrong+"**")
	}
	return strings.Join(all, ", ")
}

// watchAlerts tries one fault while clients work, and Prometheus evaluates the chart's rules. broken is true if the cluster is of no more use.
func (c *cluster) watchAlerts(
	ctx context.Context, f fault, number int, lasts time.Duration, m monitoring,
) (r alertResult, broken bool, err error) {
	r = alertResult{Fault: f.name, Side: c.side.name}
	if err := errors.Join(framework.Poll(ctx, "all is well", c.wellness), c.findLeader(ctx)); err != nil {
		return r, true, err
	}
	l, err := c.startLoad(ctx, number, f.replaces == frontProxyCA)
	if err != nil {
		return r, true, fmt.Errorf("cannot start clients: %w", err)
	}
	p, err := c.startPrometheus(ctx, m)
	if err != nil {
		_, _, finishErr := l.finish(ctx)
		return r, true, errors.Join(err, finishErr)
	}
	starts := time.Now()
	sleep(ctx, alertsBefore)
	began := time.Now()
	err = f.begin(ctx, c)
	sleep(ctx, lasts)
	err = errors.Join(err, f.end(context.WithoutCancel(ctx), c))
	notRecovered := framework.Poll(ctx, "all is well again", c.wellness)
	var firedErr error
	r.Fired, firedErr = p.fired(ctx, starts, began)
	err = errors.Join(err, firedErr, p.stop())
	if notRecovered != nil {
		r.Wrong = append(r.Wrong, "it did not recover: "+notRecovered.Error())
	}
	if firedErr == nil {
		r.Wrong = append(r.Wrong, f.expects(c.side).judge(r.Fired)...)
	}
	_, lost, finishErr := l.finish(ctx)
	r.Wrong = append(r.Wrong, lost...)
	return r, notRecovered != nil, errors.Join(err, finishErr, ctx.Err())
}
