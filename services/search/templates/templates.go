// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package templates

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Limits are what one template may take.
type Limits struct {
	// Memory is in bytes.
	Memory int64
	// Time is that of a processor.
	Time time.Duration
}

// Standard are the limits by default.
var Standard = Limits{Memory: 64 << 20, Time: time.Second}

// Validate returns an error if nothing could be executed within the limits.
func (l Limits) Validate() error {
	if l.Memory < 16<<20 || l.Memory > 4<<30 || l.Time < 100*time.Millisecond || l.Time > 10*time.Second {
		return errors.New("templates need 16Mi to 4Gi of memory and 100ms to 10s")
	}
	return nil
}

// A template that was stopped runs again after a pause, which doubles each time. So does every other template of its owner that has new
// data, sooner.
const (
	firstPause, lastPause             = 30 * time.Second, 15 * time.Minute
	firstOwnersPause, lastOwnersPause = 2 * time.Second, time.Minute
)

// Memory is that of the results that are kept, in bytes.
const Memory = 16 << 20

// Templates executes templates. It keeps what it has made as long as it is asked for in each pass. Only one goroutine may use it.
type Templates struct {
	limits  Limits
	process *process
	made    map[key]*result
	kept    int
	// pauses and ownersPauses are those after templates that were stopped.
	pauses, ownersPauses *flowcontrol.Backoff
	failures             map[string]error
	// budgets are by policy. atOnce is the constant, except in tests.
	budgets map[string]*budget
	atOnce  time.Duration
	now     func() time.Time
}

// key is a hash of all that a result depends on.
type key [sha256.Size]byte

type result struct {
	outcome
	used bool
}

// Owner is whose template it is: a policy, and the object that it is about.
type Owner struct{ Policy, Object string }

var stops = metrics.NewCounterVec(&metrics.CounterOpts{
	Name: "tripod_search_templates_stopped_total",
	Help: "Templates of ClusterImportPolicies that were stopped, by what they took too much of.", StabilityLevel: metrics.ALPHA,
}, []string{"reason"})

// New returns Templates that have executed nothing.
func New(limits Limits) *Templates {
	legacyregistry.Register(stops) //nolint:errcheck // it is registered
	return &Templates{
		limits: limits, made: map[key]*result{}, failures: map[string]error{}, now: time.Now,
		budgets: map[string]*budget{}, atOnce: atOnce,
		pauses: flowcontrol.NewBackOff(firstPause, lastPause), ownersPauses: flowcontrol.NewBackOff(firstOwnersPause, lastOwnersPause),
	}
}

// Check returns what is wrong with the syntax of a template.
func (t *Templates) Check(ctx context.Context, owner Owner, text string) error {
	_, err := t.run(ctx, owner, task{Template: text})
	return err
}

// Render returns what a template makes of data.
func (t *Templates) Render(ctx context.Context, owner Owner, text string, data map[string]any) (string, error) {
	return t.with(ctx, owner, task{Template: text}, data)
}

// JSON returns the YAML that a template makes of data, as JSON.
func (t *Templates) JSON(ctx context.Context, owner Owner, text string, data map[string]any) (string, error) {
	return t.with(ctx, owner, task{Template: text, YAML: true}, data)
}

// Holds reports whether a template makes "true".
func (t *Templates) Holds(ctx context.Context, owner Owner, text string, data map[string]any) (bool, error) {
	made, err := t.Render(ctx, owner, text, data)
	return strings.EqualFold(strings.TrimSpace(made), "true"), err
}

func (t *Templates) with(ctx context.Context, owner Owner, asked task, data map[string]any) (made string, err error) {
	if asked.Data, err = json.Marshal(data); err != nil {
		return "", err
	}
	return t.run(ctx, owner, asked)
}

func (t *Templates) run(ctx context.Context, owner Owner, asked task) (string, error) {
	hash := keyOf(asked)
	known := t.made[hash]
	if known == nil {
		answer, err := t.execute(ctx, owner, asked)
		if err != nil {
			return "", err
		}
		known = &result{outcome: answer}
		if size := len(answer.Text) + len(answer.Wrong); t.kept+size <= Memory {
			t.kept += size
			t.made[hash] = known
		}
	}
	known.used = true
	if known.Wrong != "" {
		return "", errors.New(known.Wrong)
	}
	return known.Text, nil
}

func keyOf(asked task) (k key) {
	hash := sha256.New()
	fmt.Fprintf(hash, "%t %d %d ", asked.YAML, len(asked.Template), len(asked.Data))
	hash.Write([]byte(asked.Template))
	hash.Write(asked.Data)
	hash.Sum(k[:0])
	return k
}

// execute has the interpreter execute a task, unless one like it was stopped a short time ago.
func (t *Templates) execute(ctx context.Context, owner Owner, asked task) (answer outcome, err error) {
	one, now := owner.Policy+" "+owner.Object, t.now()
	if t.pauses.IsInBackOffSinceUpdate(one, now) {
		return answer, t.failures[one]
	}
	if t.ownersPauses.IsInBackOffSinceUpdate(owner.Policy, now) {
		return answer, errors.New("it waits, because another template of its policy was stopped")
	}
	left := t.budgetOf(owner.Policy)
	if asked.Data != nil && left.left <= 0 { // the syntax is always checked
		return answer, errSpent
	}
	if t.process == nil {
		if t.process, err = start(context.WithoutCancel(ctx), t.limits); err != nil {
			return answer, err
		}
	}
	stop := context.AfterFunc(ctx, t.process.cancel)
	defer stop()
	answer, err = t.process.ask(ctx, asked)
	if err == nil {
		left.left -= answer.Took
		return answer, nil
	}
	t.process = nil
	left.left -= t.limits.Time
	var excess *stopped
	if errors.As(err, &excess) {
		stops.WithLabelValues(excess.reason).Inc()
		t.pauses.Next(one, now)
		t.ownersPauses.Next(owner.Policy, now)
		t.failures[one] = err
	}
	return answer, err
}

// Sweep forgets what was not asked for since the last Sweep, and ends the interpreter until it is needed again.
func (t *Templates) Sweep() {
	for hash, result := range t.made {
		if !result.used {
			t.kept -= len(result.Text) + len(result.Wrong)
			delete(t.made, hash)
		}
		result.used = false
	}
	t.forgetBudgets()
	t.pauses.GC()
	t.ownersPauses.GC()
	for one := range t.failures {
		if t.pauses.Get(one) == 0 {
			delete(t.failures, one)
		}
	}
	if t.process != nil {
		t.process.close()
		t.process = nil
	}
}
