// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package templates

import (
	"errors"
	"time"
)

// A policy whose templates are always slow, or that has many objects which change all the time, must not keep other policies waiting: one
// goroutine executes the templates of all.
const (
	// atOnce is the processor time that the templates of a policy may take at once, such as for all objects of a new policy.
	atOnce = 10 * time.Second
	// longRun is which part of a processor they may take in the long run.
	longRun = 0.2
)

// errSpent is the error of a template that waits. It is executed in one of the next passes.
var errSpent = errors.New("it waits: the templates of its policy have taken a fifth of a processor for long")

// budget is processor time. It may be below zero, because what a template takes is unknown before.
type budget struct {
	left time.Duration
	at   time.Time
}

// budgetOf returns the budget of a policy now.
func (t *Templates) budgetOf(policy string) *budget {
	now := t.now()
	b := t.budgets[policy]
	if b == nil {
		b = &budget{left: t.atOnce, at: now}
		t.budgets[policy] = b
	}
	b.left, b.at = min(b.left+time.Duration(longRun*float64(now.Sub(b.at))), t.atOnce), now
	return b
}

// forgetBudgets forgets those of which nothing is missing.
func (t *Templates) forgetBudgets() {
	for policy := range t.budgets {
		if t.budgetOf(policy).left == t.atOnce {
			delete(t.budgets, policy)
		}
	}
}
