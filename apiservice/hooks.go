// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// Hook runs while the service serves. What it does first is not finished when the service becomes ready, unless a ReadyCheck asks for it.
type Hook struct {
	// Name is the name of the hook in /readyz and in errors: lower case, with "-".
	Name string
	// Run runs in a goroutine of its own until the context ends, after the last request was answered. The service then waits for it, 10
	// seconds at most. An error or a panic ends the process in order, as a signal does, with exit code 1.
	Run func(context.Context, *Environment) error
}

// hooksEnd is how long a service waits for its hooks once their context has ended. A pod has 30 seconds for everything.
const hooksEnd = 10 * time.Second

// hooks are the hooks of a service while it runs. They own the goroutines of the hooks, and those that follow the service's own objects.
type hooks struct {
	all   []Hook
	group sync.WaitGroup
	// fail ends the service. It is set before anything starts.
	fail context.CancelCauseFunc
}

func (h *hooks) start(ctx context.Context, hook Hook, e *Environment) {
	h.group.Go(func() {
		if err := hook.run(ctx, e); err != nil && ctx.Err() == nil {
			h.fail(fmt.Errorf("%s: %w", hook.Name, err))
		}
	})
}

// run turns a panic of the author's code into an error, so that the service ends in order and names the hook. The log has the stack.
func (h Hook) run(ctx context.Context, e *Environment) (err error) {
	defer func() {
		if wrong := recover(); wrong != nil {
			klog.FromContext(ctx).Error(nil, "A hook has panicked", "hook", h.Name, "panic", wrong, "stack", string(debug.Stack()))
			err = fmt.Errorf("the hook has panicked: %v", wrong)
		}
	}()
	return h.Run(ctx, e)
}

// wait waits for the hooks, whose context has ended.
func (h *hooks) wait() error {
	ended := make(chan struct{})
	go func() {
		h.group.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-time.After(hooksEnd):
		return fmt.Errorf("a hook, or a handler of events of own objects, goes on %s after its context has ended", hooksEnd)
	}
}
