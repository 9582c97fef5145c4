// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package storagetest_test

import (
	"context"
	"os"
	"os/exec"
	goruntime "runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tripod-k8s/tripod/apiservice/storages"
	"github.com/tripod-k8s/tripod/apiservice/storages/memory"
	"github.com/tripod-k8s/tripod/apiservice/storagetest"
)

// brokenVariable has the name of the broken storage that TestBroken tests.
const brokenVariable = "TRIPOD_STORAGETEST_BROKEN"

// broken are storages that each violate a rule, with the rule.
var broken = map[string]struct {
	rule string
	wrap func(storage.Interface) storage.Interface
}{
	"overwrites":   {"create refuses a key that exists", overwrites},
	"careless":     {"update heeds preconditions, and writes nothing if nothing changes", careless},
	"forgetful":    {"delete returns the last state, with the resourceVersion of the deletion", forgetful},
	"latest":       {"a list at a resourceVersion is as it was then", latest},
	"inconsistent": {"pages are of one revision while objects change", latest},
	"loses":        {inOrder, func(s storage.Interface) storage.Interface { return filter{s, 0} }},
	"doubles":      {inOrder, func(s storage.Interface) storage.Interface { return filter{s, 2} }},
	"hides":        {"a watch from a forgotten revision gets 410", hides},
	"open":         {"a closed gate refuses writes of clients, and no reads", func(s storage.Interface) storage.Interface { return open{s.(gated)} }},
	"shut":         {"a closed gate admits writes of its move, and of no other", func(s storage.Interface) storage.Interface { return shut{s.(gated)} }},
	"forges":       {"an object that a move writes is as it was", func(s storage.Interface) storage.Interface { return forger{s.(gated)} }},
	"late":         {"no write of a client is done once the gate is closed", func(s storage.Interface) storage.Interface { return &late{gated: s.(gated)} }},
}

type gated = storages.Gated

const inOrder = "watches have each change once, in the order of resourceVersions"

func overwrites(s storage.Interface) storage.Interface { return overwriter{s} }
func careless(s storage.Interface) storage.Interface   { return updater{s} }
func forgetful(s storage.Interface) storage.Interface  { return deleter{s} }
func latest(s storage.Interface) storage.Interface     { return lister{s} }
func hides(s storage.Interface) storage.Interface      { return hider{s} }

func options(t *testing.T, wrap func(storage.Interface) storage.Interface) storagetest.Options {
	var inner storage.Interface
	return storagetest.Options{
		Open: func(_ *testing.T, r storages.Resource) storage.Interface {
			store, stop, err := memory.Open(r)
			require.NoError(t, err)
			t.Cleanup(stop)
			inner = store
			return wrap(store)
		},
		Compact: func(_ context.Context, _ *testing.T, _ storage.Interface, revision int64) {
			inner.(interface{ Compact(int64) }).Compact(revision)
		},
	}
}

// TestBroken runs the rules for a broken storage, in a process that TestAViolatedRuleIsNamed starts.
func TestBroken(t *testing.T) {
	name := os.Getenv(brokenVariable)
	if name == "" {
		t.Skip("TestAViolatedRuleIsNamed runs it")
	}
	storagetest.Run(t, options(t, broken[name].wrap))
}

func TestAViolatedRuleIsNamed(t *testing.T) {
	program, err := os.Executable()
	require.NoError(t, err)
	for name, b := range broken {
		t.Run(name, func(t *testing.T) {
			rule := strings.ReplaceAll(b.rule, " ", "_")
			command := exec.CommandContext(t.Context(), program, "-test.run=^TestBroken$/^"+rule+"$", "-test.v")
			command.Env = append(os.Environ(), brokenVariable+"="+name)
			output, err := command.CombinedOutput()
			require.Error(t, err, "the rules hold for it:\n%s", output)
			assert.Contains(t, string(output), "--- FAIL: TestBroken/"+rule+" ", "the failure names the rule")
		})
	}
}

// overwriter creates objects that exist.
type overwriter struct{ storage.Interface }

func (s overwriter) Create(ctx context.Context, key string, object, out runtime.Object, ttl uint64) error {
	err := s.Interface.Create(ctx, key, object, out, ttl)
	if storage.IsExist(err) {
		return nil
	}
	return err
}

// updater heeds no preconditions of updates.
type updater struct{ storage.Interface }

func (s updater) GuaranteedUpdate(
	ctx context.Context, key string, out runtime.Object, ignore bool, _ *storage.Preconditions, f storage.UpdateFunc, cached runtime.Object,
) error {
	return s.Interface.GuaranteedUpdate(ctx, key, out, ignore, nil, f, cached)
}

// deleter returns nothing of what it deletes.
type deleter struct{ storage.Interface }

func (s deleter) Delete(
	ctx context.Context, key string, out runtime.Object, p *storage.Preconditions, f storage.ValidateObjectFunc, cached runtime.Object,
	o storage.DeleteOptions,
) error {
	return s.Interface.Delete(ctx, key, out.DeepCopyObject(), p, f, cached, o)
}

// lister lists objects as they are now.
type lister struct{ storage.Interface }

func (s lister) GetList(ctx context.Context, key string, o storage.ListOptions, list runtime.Object) error {
	if token := o.Predicate.Continue; token != "" {
		start, _, err := storage.DecodeContinue(token, "/pods/")
		if err != nil {
			return err
		}
		if o.Predicate.Continue, err = storage.EncodeContinue(start, "/pods/", -1); err != nil {
			return err
		}
	}
	o.ResourceVersion, o.ResourceVersionMatch = "", ""
	return s.Interface.GetList(ctx, key, o, list)
}

// filter sends the tenth event of a watch as often as times.
type filter struct {
	storage.Interface
	times int
}

func (s filter) Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error) {
	w, err := s.Interface.Watch(ctx, key, o)
	if err != nil {
		return nil, err
	}
	events := make(chan watch.Event)
	proxy := watch.NewProxyWatcher(events)
	go func() {
		defer w.Stop()
		for i := 1; ; i++ {
			event, ok := <-w.ResultChan()
			if !ok {
				return
			}
			times := 1
			if i == 10 {
				times = s.times
			}
			for range times {
				select {
				case events <- event:
				case <-proxy.StopChan():
					return
				}
			}
		}
	}()
	return proxy, nil
}

// hider begins a watch now if its beginning is forgotten.
type hider struct{ storage.Interface }

func (s hider) Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error) {
	version, err := s.Versioner().ParseResourceVersion(o.ResourceVersion)
	if err == nil && int64(version) < s.CompactRevision() {
		o.ResourceVersion, o.SendInitialEvents = "", nil
	}
	return s.Interface.Watch(ctx, key, o)
}

// open admits all writes.
type open struct{ gated }

func (s open) GuaranteedUpdate(
	ctx context.Context, key string, out runtime.Object, ignore bool, p *storage.Preconditions, f storage.UpdateFunc, cached runtime.Object,
) error {
	move, err := s.Gate(ctx)
	if err != nil {
		return err
	}
	return s.gated.GuaranteedUpdate(storages.ByMove(ctx, move), key, out, ignore, p, f, cached)
}

// shut takes no write for that of a move.
type shut struct{ gated }

func (s shut) Create(ctx context.Context, key string, object, out runtime.Object, ttl uint64) error {
	return s.gated.Create(storages.ByMove(ctx, ""), key, object, out, ttl)
}

// forger gives objects another generation.
type forger struct{ gated }

func (s forger) GuaranteedUpdate(
	ctx context.Context, key string, out runtime.Object, ignore bool, p *storage.Preconditions, f storage.UpdateFunc, cached runtime.Object,
) error {
	return s.gated.GuaranteedUpdate(ctx, key, out, ignore, p, func(o runtime.Object, m storage.ResponseMeta) (runtime.Object, *uint64, error) {
		updated, ttl, err := f(o, m)
		if accessor, wrong := meta.Accessor(updated); err == nil && wrong == nil {
			accessor.SetGeneration(1)
		}
		return updated, ttl, err
	}, cached)
}

// late closes the gate once another write is done.
type late struct {
	gated
	written atomic.Int64
}

func (s *late) GuaranteedUpdate(
	ctx context.Context, key string, out runtime.Object, ignore bool, p *storage.Preconditions, f storage.UpdateFunc, cached runtime.Object,
) error {
	defer s.written.Add(1)
	return s.gated.GuaranteedUpdate(ctx, key, out, ignore, p, f, cached)
}

func (s *late) SetGate(ctx context.Context, from, to string) error {
	go func() {
		for until := s.written.Load() + 200; s.written.Load() < until; {
			goruntime.Gosched()
		}
		s.gated.SetGate(ctx, from, to) //nolint:errcheck // the gate is as from
	}()
	return nil
}
