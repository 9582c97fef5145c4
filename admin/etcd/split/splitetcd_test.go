// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package split

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tripod-k8s/tripod/base/storage/etcdtest"
	"github.com/tripod-k8s/tripod/base/storage/placement"
)

const (
	widgets  = 450 // more than two pages
	gadgets  = 3
	crds     = "/registry/apiextensions.k8s.io/customresourcedefinitions/"
	widgetsP = "/registry/example.com/widgets/"
)

// pair is a source with objects and an empty target.
type pair struct {
	source, target *clientv3.Client
	lines          []string
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{source: etcdtest.Start(t), target: etcdtest.Start(t)}
	for i := range 50 {
		p.put(t, fmt.Sprintf("/registry/configmaps/default/cm-%d", i), "core")
	}
	for _, crd := range []string{"widgets.example.com", "gadgets.sub.example.com"} {
		p.put(t, crds+crd, `{"kind":"CustomResourceDefinition"}`)
	}
	for i := range widgets {
		p.put(t, fmt.Sprintf("%sdefault/w-%d", widgetsP, i), strings.Repeat("x", i))
	}
	for i := range gadgets {
		p.put(t, fmt.Sprintf("/registry/sub.example.com/gadgets/g-%d", i), "k8s:enc:aescbc:v1:\x00\xff")
	}
	return p
}

func (p *pair) put(t *testing.T, key, value string) {
	t.Helper()
	if _, err := p.source.Put(t.Context(), key, value); err != nil {
		t.Fatal(err)
	}
}

func (p *pair) run(ctx context.Context, change func(*Options)) (*Report, error) {
	o := Options{
		Source: Etcd{Flag: "from", Servers: p.source.Endpoints()}, Target: Etcd{Flag: "extensions-to", Servers: p.target.Endpoints()},
		Prefix: "registry/", Progress: func(line string) { p.lines = append(p.lines, line) },
	}
	if change != nil {
		change(&o)
	}
	return Run(ctx, o)
}

func contents(t *testing.T, client *clientv3.Client, prefix string) map[string]string {
	t.Helper()
	answer, err := client.Get(t.Context(), prefix, clientv3.WithPrefix())
	require.NoError(t, err)
	got := map[string]string{}
	for _, entry := range answer.Kvs {
		got[string(entry.Key)] = string(entry.Value)
	}
	return got
}

// check fails the test unless the target has what it should, and nothing else.
func (p *pair) check(t *testing.T) {
	t.Helper()
	want := contents(t, p.source, "/registry/")
	maps.DeleteFunc(want, func(key, _ string) bool { return strings.HasPrefix(key, "/registry/configmaps/") })
	if got := contents(t, p.target, "/registry/"); !maps.Equal(got, want) {
		t.Errorf("the target has %d keys, want %d", len(got), len(want))
	}
}

func TestSplit(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	before, err := revision(t.Context(), p.source)
	require.NoError(t, err)
	report, err := p.run(t.Context(), nil)
	require.NoError(t, err)
	p.check(t)
	counts := map[string]int64{}
	for _, resource := range report.Resources {
		counts[resource.Name] = resource.Objects
	}
	if want := map[string]int64{definitions: 2, "widgets.example.com": widgets, "gadgets.sub.example.com": gadgets}; !maps.Equal(counts, want) {
		t.Errorf("copied %v, want %v", counts, want)
	}
	if want := int64(2 + widgets + gadgets); report.Written != want || report.DeletedFromSource != 0 {
		t.Errorf("wrote %d and deleted %d from the source, want %d and none", report.Written, report.DeletedFromSource, want)
	}

	answer, err := p.target.Get(t.Context(), "/registry/", clientv3.WithPrefix())
	require.NoError(t, err)
	for _, entry := range answer.Kvs {
		if entry.ModRevision <= before {
			t.Fatalf("the revision of %s goes back to %d, from up to %d", entry.Key, entry.ModRevision, before)
		}
	}
	watched := <-p.target.Watch(t.Context(), widgetsP, clientv3.WithPrefix(), clientv3.WithRev(before))
	if !errors.Is(watched.Err(), rpctypes.ErrCompacted) {
		t.Errorf("a watch from before the copy gets %v, want 410", watched)
	}
}

func TestSplitGoesOnWhereItWasInterrupted(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := p.run(ctx, func(o *Options) {
		o.Progress = func(line string) {
			if strings.Contains(line, "copied widgets.example.com") || strings.Contains(line, "copied gadgets") {
				cancel()
			}
		}
	})
	if err == nil {
		t.Fatal("it was not interrupted")
	}
	p.put(t, widgetsP+"default/new", "since")
	if _, err := p.source.Delete(t.Context(), widgetsP+"default/w-7"); err != nil {
		t.Fatal(err)
	}
	report, err := p.run(t.Context(), nil)
	require.NoError(t, err)
	p.check(t)
	if report.Unchanged == 0 {
		t.Error("everything was written again")
	}
}

func TestSplitThatWasTooEarlyIsDoneAgain(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	if _, err := p.run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	p.put(t, crds+"late.example.com", "{}")
	p.put(t, "/registry/example.com/late/object", "late")
	if _, err := p.run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	p.check(t)
}

func TestWhatIsDeletedFromTheSourceStaysInTheTarget(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := p.run(ctx, func(o *Options) {
		o.DeleteSource = true
		o.Progress = func(line string) {
			if strings.HasPrefix(line, "deleting gadgets") || strings.HasPrefix(line, "deleting widgets") {
				cancel()
			}
		}
	})
	if err == nil {
		t.Fatal("it was not interrupted")
	}
	before := contents(t, p.target, "/registry/")
	for _, deletes := range []bool{false, true} {
		if _, err := p.run(t.Context(), func(o *Options) { o.DeleteSource = deletes }); err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(contents(t, p.target, "/registry/"), before) {
			t.Error("the target was changed")
		}
	}
	if left := contents(t, p.source, "/registry/"); len(left) != 50 {
		t.Errorf("%d keys are left in the source", len(left))
	}
}

func TestFinishedSplitIsNotDoneAgain(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	if _, err := p.run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	// As extensions does from now on.
	if _, err := p.target.Put(t.Context(), widgetsP+"default/w-1", "newer"); err != nil {
		t.Fatal(err)
	}
	report, err := p.run(t.Context(), func(o *Options) { o.DeleteSource = true })
	require.NoError(t, err)
	if got := contents(t, p.target, widgetsP)[widgetsP+"default/w-1"]; got != "newer" || report.Written != 0 {
		t.Errorf("the target was changed: %q, %d written", got, report.Written)
	}
	if left := contents(t, p.source, "/registry/"); len(left) != 50 || report.DeletedFromSource != 2+widgets+gadgets {
		t.Errorf("%d keys are left in the source, %d deleted", len(left), report.DeletedFromSource)
	}
}

// refusals are copies that must not be made, and the errors with the reason.
var refusals = map[string]struct {
	before func(*testing.T, *pair)
	change func(*pair, *Options)
	want   string
}{
	"the same etcd": {
		change: func(p *pair, o *Options) { o.Target.Servers = p.source.Endpoints() },
		want:   "--from and --extensions-to are the same etcd",
	},
	"a prefix below which there is nothing": {
		change: func(_ *pair, o *Options) { o.Prefix = "/other" },
		want:   "no CustomResourceDefinitions below /other",
	},
	"a source that changed before its objects are deleted": {
		before: func(t *testing.T, p *pair) {
			t.Helper()
			if _, err := p.run(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			p.put(t, widgetsP+"default/w-1", "late")
		},
		change: func(_ *pair, o *Options) { o.DeleteSource = true },
		want:   "the source has changed since it was copied: nothing is deleted",
	},
	"a source that is written while its objects are deleted": {
		change: func(p *pair, o *Options) {
			o.DeleteSource = true
			o.Progress = func(line string) {
				if strings.HasPrefix(line, "deleting widgets") {
					p.source.Put(context.Background(), widgetsP+"default/w-1", "late") //nolint:errcheck // then nothing is refused
				}
			}
		},
		want: "/registry/example.com/widgets/default/w-1 was written in the source since it was copied",
	},
	"a source that is in use again after its objects were deleted": {
		before: func(t *testing.T, p *pair) {
			t.Helper()
			if _, err := p.run(t.Context(), func(o *Options) { o.DeleteSource = true }); err != nil {
				t.Fatal(err)
			}
			p.put(t, crds+"widgets.example.com", "{}")
			p.put(t, widgetsP+"default/again", "")
		},
		change: func(_ *pair, o *Options) { o.DeleteSource = true },
		want:   "the source has changed since it was copied: nothing is deleted",
	},
	"a target in use": {
		before: func(t *testing.T, p *pair) {
			t.Helper()
			if _, err := p.target.Put(t.Context(), "/registry/other", ""); err != nil {
				t.Fatal(err)
			}
		},
		want: "the target is in use",
	},
	"a source that changes meanwhile": {
		change: func(p *pair, o *Options) {
			o.Progress = func(line string) {
				if strings.HasPrefix(line, "comparing") {
					p.source.Put(context.Background(), widgetsP+"default/late", "") //nolint:errcheck // then nothing is refused
				}
			}
		},
		want: "widgets.example.com changed in the source",
	},
	"a target that differs": {
		change: func(p *pair, o *Options) {
			o.Progress = func(line string) {
				if strings.HasPrefix(line, "comparing") {
					p.target.Delete(context.Background(), widgetsP+"default/w-3") //nolint:errcheck // then nothing is refused
				}
			}
		},
		want: "widgets.example.com differs",
	},
	"a source and a target that changed after it was done": {
		before: func(t *testing.T, p *pair) {
			t.Helper()
			if _, err := p.run(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			p.put(t, widgetsP+"default/w-1", "late")
			if _, err := p.target.Put(t.Context(), widgetsP+"default/w-2", "newer"); err != nil {
				t.Fatal(err)
			}
		},
		want: "were changed in the source and in the target",
	},
}

func TestSplitRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range refusals {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			if test.before != nil {
				test.before(t, p)
			}
			_, err := p.run(t.Context(), func(o *Options) {
				if test.change != nil {
					test.change(p, o)
				}
			})
			assert.ErrorContains(t, err, test.want)
		})
	}
}

func TestRevisionIsRaised(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	s := &split{Options: Options{Progress: func(string) {}}, source: p.source, target: p.target}
	const above = 5000
	require.NoError(t, s.raise(t.Context(), above))
	got, err := revision(t.Context(), p.target)
	if err != nil || got <= above {
		t.Errorf("the revision is %d, %v", got, err)
	}
	if left := contents(t, p.target, "/"); len(left) != 0 {
		t.Errorf("it left %v", left)
	}
}

func TestRevisionThatIsTooFarIsNotBegun(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	s := &split{Options: Options{Progress: func(string) {}}, source: p.source, target: p.target}
	before, err := revision(t.Context(), p.target)
	require.NoError(t, err)
	assert.ErrorContains(t, s.raise(t.Context(), 10*Farthest), "--bump-revision")
	if after, err := revision(t.Context(), p.target); err != nil || after != before {
		t.Errorf("the revision is %d and was %d: %v", after, before, err)
	}
}

// An etcd of custom resources also knows which groups are in an etcd of their own.
func TestSplitCopiesWhereGroupsAre(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	record := placement.Record{Own: true, Move: "m", Floor: 17}
	keys := placement.KeysOf("/registry", "example.com")
	answer, err := p.source.Txn(t.Context()).Then(keys.Put(record)).Commit()
	require.NoError(t, err)
	require.True(t, answer.Succeeded)
	_, err = p.run(t.Context(), nil)
	require.NoError(t, err)
	state, err := keys.Read(t.Context(), p.target)
	require.NoError(t, err)
	require.NotNil(t, state.Record)
	assert.Equal(t, record, *state.Record)
}
