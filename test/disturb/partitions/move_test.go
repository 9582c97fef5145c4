// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package partitions

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/tripod-k8s/tripod/admin/etcd/split"
	"github.com/tripod-k8s/tripod/test/framework"
)

const toPartition, toShared = "wide", "extensions"

// mover runs `tripod migrate groups`.
type mover struct {
	*instance
	own   *etcd
	flags []string
}

func (i *instance) mover(t *testing.T, own *etcd) *mover {
	t.Helper()
	_, server, ca, cert, key := i.shared(t)
	return &mover{i, own, []string{
		"migrate", "groups", groups[wide], "-o", "json", "--extensions-etcd", server, "--extensions-etcd-cafile", ca,
		"--extensions-etcd-certfile", cert, "--extensions-etcd-keyfile", key, "--partition-etcd", own.url,
	}}
}

// run runs the command, and calls at with each line of its progress.
func (m *mover) run(t *testing.T, at func(line string, command *exec.Cmd), to string, more ...string) (split.GroupReport, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), framework.ForTest(t).Binary("tripod"), append(append(slices.Clone(m.flags), "--to", to), more...)...)
	progress, err := command.StderrPipe()
	require.NoError(t, err)
	var out strings.Builder
	command.Stdout = &out
	require.NoError(t, command.Start())
	var lines []string
	for scanner := bufio.NewScanner(progress); scanner.Scan(); {
		lines = append(lines, scanner.Text())
		if at != nil {
			at(scanner.Text(), command)
		}
	}
	if err := command.Wait(); err != nil {
		return split.GroupReport{}, fmt.Errorf("%w: %s", err, strings.Join(lines, "\n"))
	}
	var reports []split.GroupReport
	require.NoError(t, json.Unmarshal([]byte(out.String()), &reports), out.String())
	require.Len(t, reports, 1)
	return reports[0], nil
}

func (m *mover) move(t *testing.T, to string) split.GroupReport {
	t.Helper()
	report, err := m.run(t, nil, to)
	require.NoError(t, err)
	return report
}

// writers write boats, each its own, and remember what was acknowledged.
type writers struct {
	running sync.WaitGroup
	stop    context.CancelFunc
	refused atomic.Int64
	// acknowledged counts the writes that were.
	acknowledged atomic.Int64

	mu sync.Mutex
	// values has the value of each boat. A boat without one was deleted.
	values map[string]string
	wrong  []string
}

func (w *writers) remember(name, value string) {
	w.acknowledged.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if value == "" {
		delete(w.values, name)
	} else {
		w.values[name] = value
	}
}

// goOn waits for more writes.
func (w *writers) goOn(t *testing.T) {
	t.Helper()
	const enough = 200
	before := w.acknowledged.Load()
	framework.Eventually(t, "writes go on", func(context.Context) error {
		if got := w.acknowledged.Load() - before; got < enough {
			return fmt.Errorf("%d writes since", got)
		}
		return nil
	})
}

// client is a client without limits.
func (i *instance) client(t *testing.T) dynamic.ResourceInterface {
	t.Helper()
	config := rest.CopyConfig(i.Admin())
	config.RateLimiter = flowcontrol.NewFakeAlwaysRateLimiter()
	objects, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	return objects.Resource(schema.GroupVersionResource{Group: groups[wide], Version: "v1", Resource: "boats"}).Namespace(namespace)
}

const writing, boatsOfEach = 4, 25

func (i *instance) write(t *testing.T) *writers {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	w := &writers{stop: stop, values: map[string]string{}}
	for n := range writing {
		client := i.client(t)
		w.running.Go(func() {
			for round := 0; ctx.Err() == nil; round++ {
				w.writeOne(client, fmt.Sprintf("w%d-%d", n, round%boatsOfEach), strconv.Itoa(round), func() bool { return ctx.Err() != nil })
			}
		})
	}
	return w
}

// writeOne creates, changes or deletes a boat, and repeats that until it is acknowledged.
func (w *writers) writeOne(client dynamic.ResourceInterface, name, value string, over func() bool) {
	for attempt := 0; attempt == 0 || !over(); attempt++ {
		err := w.attempt(client, name, value)
		if err == nil {
			return
		}
		w.refused.Add(1)
	}
}

func (w *writers) attempt(client dynamic.ResourceInterface, name, value string) error {
	ctx := context.Background() // a write that has begun is acknowledged
	existing, err := client.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		w.expect(name, "")
		created := boat(groups[wide], name)
		created.SetLabels(map[string]string{"value": value})
		if _, err = client.Create(ctx, created, metav1.CreateOptions{}); err == nil {
			w.remember(name, value)
		}
	case err != nil:
	case existing.GetLabels()["value"] == value: // an earlier attempt has succeeded
		w.remember(name, value)
	case strings.HasSuffix(value, "7"):
		w.expect(name, existing.GetLabels()["value"])
		err = client.Delete(ctx, name, metav1.DeleteOptions{})
		if err == nil {
			w.remember(name, "")
		}
	default:
		w.expect(name, existing.GetLabels()["value"])
		existing.SetLabels(map[string]string{"value": value})
		if _, err = client.Update(ctx, existing, metav1.UpdateOptions{}); err == nil {
			w.remember(name, value)
		}
	}
	return err
}

// expect notes if a boat is not as its writer has left it. Its own attempts that were not acknowledged may have succeeded.
func (w *writers) expect(name, value string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	have, _ := strconv.Atoi(value)
	want, _ := strconv.Atoi(w.values[name])
	if have < want && value != "" {
		w.wrong = append(w.wrong, fmt.Sprintf("%s is %q after %q", name, value, w.values[name]))
	}
}

// watcher follows boats by list and watch, as an informer does.
type watcher struct {
	lists, expired int
	state          map[string]string
	last           uint64
	wrong          []string
	running        sync.WaitGroup
	stop           context.CancelFunc
}

func (i *instance) follow(t *testing.T) *watcher {
	t.Helper()
	client := i.client(t)
	ctx, stop := context.WithCancel(t.Context())
	w := &watcher{stop: stop}
	w.running.Go(func() {
		relist := true
		for ctx.Err() == nil {
			if relist && !w.list(ctx, client) {
				continue
			}
			relist = w.watch(ctx, client)
		}
	})
	return w
}

func (w *watcher) list(ctx context.Context, client dynamic.ResourceInterface) bool {
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return false
	}
	w.lists++
	w.state = map[string]string{}
	for _, item := range list.Items {
		w.state[item.GetName()] = item.GetLabels()["value"]
	}
	w.advance(list.GetResourceVersion(), "a list")
	return true
}

func (w *watcher) advance(version, what string) {
	at, err := strconv.ParseUint(version, 10, 64)
	if err != nil || at < w.last {
		w.wrong = append(w.wrong, fmt.Sprintf("%s has resourceVersion %s after %d", what, version, w.last))
	}
	w.last = max(w.last, at)
}

// watch reports whether the watcher has to list again.
func (w *watcher) watch(ctx context.Context, client dynamic.ResourceInterface) (relist bool) {
	watching, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: strconv.FormatUint(w.last, 10)})
	if err != nil {
		if apierrors.IsResourceExpired(err) {
			w.expired++
			return true
		}
		return false
	}
	defer watching.Stop()
	for event := range watching.ResultChan() {
		if event.Type == watch.Error {
			if apierrors.IsResourceExpired(apierrors.FromObject(event.Object)) {
				w.expired++
				return true
			}
			return false
		}
		object := event.Object.(*unstructured.Unstructured)
		name, value := object.GetName(), object.GetLabels()["value"]
		if _, known := w.state[name]; known != (event.Type != watch.Added) {
			w.wrong = append(w.wrong, fmt.Sprintf("%s of %s, known before: %t", event.Type, name, known))
		}
		w.state[name] = value
		if event.Type == watch.Deleted {
			delete(w.state, name)
		}
		w.advance(object.GetResourceVersion(), string(event.Type))
	}
	return false
}

// finish ends writers and watcher, and compares what they know with what there is.
func (i *instance) finish(t *testing.T, writing *writers, following *watcher) {
	t.Helper()
	writing.stop()
	writing.running.Wait()
	list, err := i.client(t).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	stored := map[string]string{}
	for _, item := range list.Items {
		stored[item.GetName()] = item.GetLabels()["value"]
	}
	writing.check(t, stored)
	// One more write shows when the watcher has seen all others.
	last, err := i.client(t).Create(t.Context(), boat(groups[wide], "last"), metav1.CreateOptions{})
	require.NoError(t, err)
	stored["last"] = ""
	until, err := strconv.ParseUint(last.GetResourceVersion(), 10, 64)
	require.NoError(t, err)
	following.stop()
	following.running.Wait()
	if following.last < until { // it ended before it has seen the last
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		following.catchUp(ctx, i.client(t), cancel, until)
	}
	assert.Empty(t, following.wrong, "what the watcher saw")
	assert.Equal(t, stored, following.state, "what the watcher knows")
	require.NoError(t, i.client(t).Delete(t.Context(), "last", metav1.DeleteOptions{}))
}

// catchUp goes on until the watcher has seen a resourceVersion.
func (w *watcher) catchUp(ctx context.Context, client dynamic.ResourceInterface, cancel context.CancelFunc, until uint64) {
	for relist := false; w.last < until; {
		if relist {
			w.list(ctx, client)
			relist = false
			continue
		}
		watching, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: strconv.FormatUint(w.last, 10)})
		if err != nil {
			relist = true
			continue
		}
		for w.last < until {
			event, ok := <-watching.ResultChan()
			if !ok || event.Type == watch.Error {
				relist = true
				break
			}
			object := event.Object.(*unstructured.Unstructured)
			w.state[object.GetName()] = object.GetLabels()["value"]
			if event.Type == watch.Deleted {
				delete(w.state, object.GetName())
			}
			w.advance(object.GetResourceVersion(), string(event.Type))
		}
		watching.Stop()
	}
	cancel()
}

// check compares what was acknowledged with what there is. The last write of each may have been done without an acknowledgement.
func (w *writers) check(t *testing.T, stored map[string]string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	assert.Empty(t, w.wrong, "boats are not as they were left")
	var differ []string
	for _, name := range slices.Sorted(maps.Keys(w.values)) {
		if stored[name] != w.values[name] {
			differ = append(differ, fmt.Sprintf("%s is %q, and was left at %q", name, stored[name], w.values[name]))
		}
	}
	for name := range stored {
		if _, known := w.values[name]; !known {
			differ = append(differ, name+" was deleted, or never acknowledged")
		}
	}
	// Each writer has one write at most whose answer it did not get.
	assert.LessOrEqual(t, len(differ), writing, "%v", differ)
	t.Logf("%d boats, %d attempts were refused, %d differ: %v", len(stored), w.refused.Load(), len(differ), differ)
}

// startMoving starts an instance with a partition that has an etcd of its own, and a group with objects there.
func startMoving(t *testing.T) *mover {
	t.Helper()
	own := startEtcd(t)
	i := startWith(t, framework.TripodOptions{Args: []string{
		"--extensions-partition=wide=*.wide.example.com", "--extensions-partition-etcd-servers=wide=" + own.url,
	}})
	boats := i.define(t, framework.CRD{Kind: "Boat", Group: groups[wide]})
	for n := range 300 {
		_, err := boats.Create(t.Context(), boat(groups[wide], fmt.Sprintf("still-%d", n)), metav1.CreateOptions{})
		require.NoError(t, err)
		if n%100 == 0 {
			_, err := boats.Get(t.Context(), fmt.Sprintf("still-%d", n), metav1.GetOptions{})
			require.NoError(t, err)
		}
	}
	return i.mover(t, own)
}

func TestGroupsMoveWhileTheyAreUsed(t *testing.T) {
	t.Parallel()
	m := startMoving(t)
	shared, _, _, _, _ := m.shared(t)
	for _, item := range m.stillThere(t) {
		require.NoError(t, m.client(t).Delete(t.Context(), item, metav1.DeleteOptions{}))
	}
	writing, following := m.write(t), m.follow(t)
	writing.goOn(t)
	for n, to := range []string{toShared, toPartition, toShared, toPartition} {
		dry, err := m.run(t, nil, to, "--dry-run")
		require.NoError(t, err)
		assert.False(t, dry.Moved)
		assert.NotEmpty(t, dry.Resources)
		report := m.move(t, to)
		assert.True(t, report.Moved)
		t.Logf("move %d to %s: %+v", n, to, report)
		writing.goOn(t)
		again := m.move(t, to)
		assert.False(t, again.Moved, "a second time")
	}
	m.finish(t, writing, following)
	assert.LessOrEqual(t, following.expired, 4, "the watcher lists once for each move")
	t.Logf("lists %d, expired %d", following.lists, following.expired)
	assert.Positive(t, keys(t, m.own.Client, groups[wide]))
	report, err := m.run(t, nil, toPartition, "--delete-source")
	require.NoError(t, err)
	assert.Positive(t, report.DeletedFromSource)
	assert.Zero(t, keys(t, shared, groups[wide]))
}

// stillThere returns the names of all boats.
func (m *mover) stillThere(t *testing.T) []string {
	t.Helper()
	list, err := m.client(t).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	var names []string
	for _, item := range list.Items {
		names = append(names, item.GetName())
	}
	return names
}

func TestAMoveThatDiesLosesNothing(t *testing.T) {
	t.Parallel()
	m := startMoving(t)
	want := len(m.stillThere(t))
	kill := func(_ *testing.T, command *exec.Cmd) { command.Process.Signal(os.Kill) } //nolint:errcheck // it may have ended
	for _, test := range []struct {
		at, to string
		do     func(*testing.T, *exec.Cmd)
	}{
		{"copied", toShared, kill}, {"pausing writes", toShared, kill}, {"comparing", toShared, kill}, {"closing", toShared, kill},
		{"switching", toShared, kill}, {"moved", toShared, kill},
		{"copied", toPartition, kill}, {"pausing writes", toPartition, kill}, {"comparing", toPartition, kill},
		{"opening", toPartition, kill}, {"switching", toPartition, kill},
		{"pausing writes", toShared, func(t *testing.T, _ *exec.Cmd) { m.own.kill(t); m.own.start(t) }},
		{"pausing writes", toPartition, func(t *testing.T, _ *exec.Cmd) { require.NoError(t, m.Kill(t.Context(), wide)) }},
		{"comparing", toShared, func(t *testing.T, _ *exec.Cmd) { require.NoError(t, m.Kill(t.Context(), "etcd")) }},
	} {
		t.Run(test.at+" to "+test.to, func(t *testing.T) {
			m.move(t, map[string]string{toShared: toPartition, toPartition: toShared}[test.to])
			framework.Eventually(t, "the move can be", func(context.Context) error {
				_, err := m.run(t, nil, test.to, "--dry-run")
				return err
			})
			var once sync.Once
			done := false
			// On a slow machine, so short a pause may end before the move does.
			framework.Eventually(t, "the move comes there", func(context.Context) error {
				_, err := m.run(t, func(line string, command *exec.Cmd) {
					if strings.Contains(line, ": "+test.at) {
						once.Do(func() { test.do(t, command); done = true })
					}
				}, test.to, "--pause-ttl=3s")
				t.Log(err)
				if done {
					return nil
				}
				return err
			})
			require.True(t, done, "it never came there")
			require.NoError(t, m.WaitReady(t.Context()))
			framework.Eventually(t, "all objects can be read", func(context.Context) error {
				list, err := m.client(t).List(t.Context(), metav1.ListOptions{})
				if err == nil && len(list.Items) != want {
					t.Errorf("there are %d objects, not %d", len(list.Items), want)
				}
				return err
			})
			framework.Eventually(t, "the move is done", func(context.Context) error {
				_, err := m.run(t, nil, test.to)
				return err
			})
			framework.Eventually(t, "writes go on", func(ctx context.Context) error {
				_, err := m.client(t).Create(ctx, boat(groups[wide], "extra"), metav1.CreateOptions{})
				return err
			})
			assert.Len(t, m.stillThere(t), want+1)
			require.NoError(t, m.client(t).Delete(t.Context(), "extra", metav1.DeleteOptions{}))
		})
	}
	t.Run("moves that cannot be", m.testMovesThatCannotBe)
}

func (m *mover) testMovesThatCannotBe(t *testing.T) {
	m.move(t, toShared)
	framework.Eventually(t, "the partition would use its etcd", func(context.Context) error {
		_, err := m.run(t, nil, toPartition, "--dry-run")
		return err
	})
	for _, test := range []struct {
		name, want string
		to         string
		more       []string
	}{
		{"an unknown partition", "no replica of the partition huge has the etcd of --partition-etcd for this group", "huge", nil},
		{"no name of a partition", `--to: "Huge" is not the name of a partition`, "Huge", nil},
		{"a built-in group", `"apps" is not an API group of custom resources`, toPartition, []string{"apps"}},
		{"an unknown group", "unknown.example.com: --extensions-etcd has no CustomResourceDefinitions of this group", toPartition, []string{"unknown.example.com"}},
		{"a group twice", groups[wide] + " is given twice", toPartition, []string{groups[wide]}},
	} {
		_, err := m.run(t, nil, test.to, test.more...)
		assert.ErrorContains(t, err, test.want, test.name)
	}
	assert.Len(t, m.stillThere(t), 300, "nothing moved")
}
