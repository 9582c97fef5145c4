// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/broadcast"
	"github.com/tripod-k8s/tripod/services/search/parties"
	"github.com/tripod-k8s/tripod/services/search/shards"
	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// discoveryInterval is how often a member is asked which resources it has.
const discoveryInterval = 20 * time.Second

// Member is a cluster whose objects are copied.
type Member struct {
	name   string
	wanted []Rule
	// namespaces are those that search copies, or none for all.
	namespaces []string
	store      *store.Store
	shards     *shards.Shards
	limiter    *memberLimiter
	usage      *usage
	client     rest.Interface
	discovery  discovery.DiscoveryInterface

	checks *Checks
	// underCheck is set while a check goes on.
	underCheck atomic.Bool
	// discoveryInterval is the constant, except in tests.
	discoveryInterval time.Duration

	involved involvement
	// granted has something when a stream that waits may begin.
	granted chan struct{}

	mu sync.Mutex
	// waits are streams that wait for a slot.
	waits map[schema.GroupVersionResource]waiting
	// checked counts checks.
	checked int
	streams map[schema.GroupVersionResource]*running
	health  Health
	// documentsFull is why documents have no room, or empty.
	documentsFull string
	// version is the last one that the member has reported.
	version version.Info

	// answers wakes streams that wait when the member has answered a question.
	answers broadcast.Broadcast
}

// Health says whether a member answers.
type Health struct {
	// Version is that of the member's API server. It is empty if it never answered, or names none. Answered is set once it has.
	Version  string
	Answered bool
	// Failure is why the last question failed, or nil.
	Failure error
	// Limit says that the member has more resources or documents than are copied, or is empty.
	Limit string
	// LeftOut are the wanted resources that are not copied because only some namespaces are.
	LeftOut []string
}

// running is a stream that runs until end is called.
type running struct {
	*stream
	end  context.CancelFunc
	done chan struct{}
	// isCrowded is set once it has to end for the streams of others.
	isCrowded atomic.Bool
}

// isOver reports whether a stream has ended by itself, or has left its resource to another replica.
func (r *running) isOver() bool {
	select {
	case <-r.done:
		return true
	default:
		return r.Status().Phase == Stopped
	}
}

// Dependencies are what the members of a process have in common, or some of them.
type Dependencies struct {
	Store *store.Store
	// Shards say which streams are those of this replica, and Checks keep them fresh. Either may be nil.
	Shards  *shards.Shards
	Checks  *Checks
	Limiter *Limiter
	// Party is that of the member, or zero if it is one by itself. Parties share what the limiter has.
	Party parties.Party
}

// New returns a member. wanted are the resources to copy.
func New(name string, config *rest.Config, wanted []Rule, dependencies Dependencies) (*Member, error) {
	m := &Member{
		name: name, wanted: wanted, shards: dependencies.Shards, checks: dependencies.Checks, limiter: dependencies.Limiter.forMember(),
		streams: map[schema.GroupVersionResource]*running{},
		waits:   map[schema.GroupVersionResource]waiting{}, granted: make(chan struct{}, 1),
	}
	m.limiter.isNamed(name, dependencies.Party)
	m.discoveryInterval = discoveryInterval
	m.store = dependencies.Store.Throttled(m.limiter.throttle)
	m.usage = &usage{cluster: name, store: m.store, limits: &m.limiter.Limits}
	config = rest.CopyConfig(config)
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	config.QPS = -1 // each stream sends few requests, and the member's own limits hold
	config.Timeout = 0
	config.WarningHandler = rest.NoWarnings{}
	client, err := m.limiter.client(config)
	if err == nil {
		m.discovery, err = discovery.NewDiscoveryClientForConfigAndClient(config, client)
	}
	if err == nil {
		config.NegotiatedSerializer = clientgoscheme.Codecs.WithoutConversion() // for errors
		m.client, err = rest.UnversionedRESTClientForConfigAndClient(config, client)
	}
	if err != nil {
		return nil, fmt.Errorf("client of cluster %s: %w", name, err)
	}
	return m, nil
}

// Only makes Run copy some namespaces only, and nothing outside of namespaces. No namespaces stand for everything.
func (m *Member) Only(namespaces ...string) error {
	if err := checkNamespaces(namespaces); err != nil {
		return err
	}
	m.namespaces = canonicalNamespaces(namespaces)
	return nil
}

// Status returns the state of the member, and of its streams that this replica copies, in the order of their resources.
func (m *Member) Status() (Health, []Status) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Status
	for _, r := range m.streams {
		all = append(all, r.Status())
	}
	for _, one := range m.waits {
		all = append(all, one.status)
	}
	slices.SortFunc(all, func(a, b Status) int {
		return cmp.Or(cmp.Compare(a.Kind.Group, b.Kind.Group), cmp.Compare(a.Kind.Resource, b.Kind.Resource),
			cmp.Compare(a.Kind.Version, b.Kind.Version))
	})
	health := m.health
	waiting := ""
	if len(m.waits) > 0 {
		waiting = fmt.Sprintf("%d resources wait: %s", len(m.waits), errCrowded)
	}
	limits := []string{waiting, health.Limit, m.documentsFull}
	health.Limit = strings.Join(slices.DeleteFunc(limits, func(text string) bool { return text == "" }), "; ")
	return health, all
}

// StreamStatuses returns the states of all streams of a member, whichever replicas copy them.
func StreamStatuses(ctx context.Context, from *store.Store, name string) ([]Status, error) {
	saved, err := from.StreamStatuses(ctx, name)
	if err != nil {
		return nil, err
	}
	all := make([]Status, 0, len(saved))
	for _, one := range saved {
		status := Status{}
		if err := json.Unmarshal(one.Status, &status); err != nil {
			return nil, fmt.Errorf("state of %s in cluster %s: %w", one.Kind.GroupResource(), name, err)
		}
		status.Kind = one.Kind
		all = append(all, status)
	}
	return all, nil
}

// Run copies until the context ends. It follows resources that come and go, and replicas.
func (m *Member) Run(ctx context.Context) {
	defer m.hangUp()
	defer m.cutOff(ctx)()
	defer m.forgo(func(schema.GroupVersionResource) bool { return true })
	defer m.stop()
	defer m.checks.add(m)()
	pauses, limitPauses := discoveryRetries(), limitRetries()
	documents := &schemas{member: m}
	columns := &definitions{client: m.client, single: m.single}
	var kinds []streams.Kind
	var missing []string
	for cleaned, known := false, false; ctx.Err() == nil; {
		changed := m.shards.Changed()
		// adjustUntil returns after a pause. Until then, other replicas come and go.
		adjustUntil := func(next <-chan time.Time) {
			for ctx.Err() == nil {
				select {
				case <-ctx.Done():
				case <-next:
					return
				case <-m.granted:
					if known {
						m.adjust(ctx, kinds, missing)
					}
				case <-changed:
					if changed = m.shards.Changed(); known {
						m.adjust(ctx, kinds, missing)
					}
					cleaned = false // a replica that is gone may have left what is not wanted any more
				}
			}
		}
		has, without, err := m.discover(ctx)
		if err == nil {
			kinds, missing, known = has, without, true
		}
		if err == nil && !cleaned {
			// What is not wanted any more may be from the time before this process.
			if err = m.store.RemoveOtherStreams(ctx, m.name, kinds, missing); err == nil {
				cleaned = true
			}
		}
		m.setFailure(err)
		if err != nil {
			klog.V(2).InfoS("Member fails", "cluster", m.name, "err", err)
			pause := pauses.Step
			if isTooMuch(err) { // to read as much again would only cost others
				pause = limitPauses.Step
			}
			adjustUntil(time.After(pause()))
			continue
		}
		pauses, limitPauses = discoveryRetries(), limitRetries()
		if err := columns.describe(ctx, kinds); err != nil && ctx.Err() == nil {
			klog.V(2).InfoS("CustomResourceDefinitions of a member cannot be read", "cluster", m.name, "err", err)
		}
		m.adjust(ctx, kinds, missing)
		if m.shards.Mine(m.name) {
			if err := documents.copy(ctx, kinds); err != nil && ctx.Err() == nil {
				klog.V(2).InfoS("OpenAPI documents of a member cannot be copied", "cluster", m.name, "err", err)
			}
		}
		adjustUntil(time.After(m.discoveryInterval))
	}
}

func (m *Member) setFailure(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.health.Failure = err; err == nil {
		m.health.Answered = true
		m.answers.Send()
	} else if isTooMuch(err) {
		m.health.Limit = err.Error()
	}
}

// discover returns the wanted resources that the member has. Those of groups in missing are not known now: an aggregated API server is
// away.
func (m *Member) discover(ctx context.Context) (kinds []streams.Kind, missing []string, err error) {
	if err := m.limiter.admit(ctx); err != nil { // documents count as changes, too
		return nil, nil, err
	}
	m.limiter.round.begin(ctx)
	defer m.limiter.round.end()
	reported, err := m.discovery.ServerVersion()
	if err != nil {
		return nil, nil, err
	}
	groups, lists, err := m.discovery.ServerGroupsAndResources()
	if limit := m.limiter.round.failed(); limit != nil {
		return nil, nil, limit
	}
	var failed *discovery.ErrGroupDiscoveryFailed
	if errors.As(err, &failed) {
		for gv := range failed.Groups {
			missing = append(missing, gv.Group)
		}
		err = nil
	}
	if err != nil {
		return nil, nil, err
	}
	kinds = selectKinds(m.name, groups, lists, m.wanted)
	var leftOut []string
	if len(m.namespaces) > 0 {
		kinds, leftOut = within(kinds)
	}
	kinds, limit := limitKinds(kinds, m.limiter.Resources/max(len(m.namespaces), 1)) // each has a watch in each namespace
	m.mu.Lock()
	m.health.LeftOut = leftOut
	m.version = shortenedVersion(*reported)
	m.health.Version, m.health.Limit = m.version.GitVersion, ""
	if limit != nil {
		m.health.Limit = limit.Error()
	}
	m.mu.Unlock()
	if m.involved.set(lists, m.wanted) {
		kinds = append(kinds, streams.InvolvedEvents)
	}
	return kinds, missing, ctx.Err()
}

// shortenedVersion returns a version whose parts are as long as those of Kubernetes could be.
func shortenedVersion(v version.Info) version.Info {
	for _, part := range []*string{
		&v.Major, &v.Minor, &v.EmulationMajor, &v.EmulationMinor, &v.MinCompatibilityMajor, &v.MinCompatibilityMinor,
		&v.GitVersion, &v.GitCommit, &v.GitTreeState, &v.BuildDate, &v.GoVersion, &v.Compiler, &v.Platform,
	} {
		*part = shortened(*part, maxReason)
	}
	return v
}

// versionDocument returns the last version that the member has reported.
func (m *Member) versionDocument() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	text, _ := json.Marshal(m.version) // strings can be marshalled
	return text
}

// isMine reports whether this replica copies a resource.
func (m *Member) isMine(resource schema.GroupVersionResource) bool {
	return m.shards.Mine(m.name + " " + resource.String())
}

// adjust starts and stops streams: those of this replica run. Only Run calls it. Others look at the streams meanwhile, so it holds no lock
// while it waits.
func (m *Member) adjust(ctx context.Context, kinds []streams.Kind, missing []string) {
	wanted := map[schema.GroupVersionResource]streams.Kind{}
	for _, kind := range kinds {
		wanted[kind.GroupVersionResource] = kind
	}
	running := m.running()
	for resource, r := range running {
		kind, still := wanted[resource]
		same := r.kind.Name == kind.Name && r.kind.Namespaced == kind.Namespaced
		if still && same {
			r.describe(ctx, kind.Details)
		}
		if still && same && m.isMine(resource) && !r.isOver() || !still && slices.Contains(missing, resource.Group) {
			continue
		}
		r.end()
		<-r.done
		if !still && r.target != nil {
			if err := m.store.CloseStream(ctx, r.target); err != nil && !errors.Is(err, streams.ErrFenced) {
				klog.ErrorS(err, "Cannot remove what a cluster does not have any more", "cluster", m.name, "resource", resource)
				continue // the next time
			}
		}
		delete(running, resource)
		m.set(resource, nil)
	}
	m.forgo(func(resource schema.GroupVersionResource) bool {
		_, still := wanted[resource]
		return !still || !m.isMine(resource)
	})
	late := false // resources that are new have to wait
	for _, kind := range inOrder(maps.Values(wanted)) {
		resource := kind.GroupVersionResource
		if running[resource] != nil || !m.isMine(resource) {
			continue
		}
		if !m.limiter.had[resource] && !streams.DecidesRights(resource) && (late || !m.limiter.kinds.Allow()) {
			late = true
			continue
		}
		m.limiter.had[resource] = true
		if in := m.enter(kind); in != nil {
			m.start(ctx, kind, in)
		}
	}
	m.closeWaiting(ctx)
	if late {
		m.limit(limited("resources", "", "the cluster has had more than %d resources, and others too often: more begin later",
			m.limiter.kinds.Burst()))
	}
}

// limit says that the member has reached a limit.
func (m *Member) limit(reached *LimitError) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.health.Limit = reached.Error()
}

// running returns the streams of this replica.
func (m *Member) running() map[schema.GroupVersionResource]*running {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.streams)
}

// set notes the stream of a resource, or that there is none.
func (m *Member) set(resource schema.GroupVersionResource, r *running) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r == nil {
		delete(m.streams, resource)
		return
	}
	m.streams[resource] = r
}

func (m *Member) start(parent context.Context, kind streams.Kind, in *slot) {
	ctx, end := context.WithCancel(parent)
	r := &running{stream: m.newStream(kind), end: end, done: make(chan struct{})}
	m.set(kind.GroupVersionResource, r)
	streamsRunning.Inc()
	go func() {
		defer close(r.done)
		defer streamsRunning.Dec()
		r.run(ctx)
		if in.leave(); parent.Err() == nil && r.isCrowded.Load() {
			r.fail(errCrowded)
			r.saveStatus(parent)
			if r.target != nil && m.decidesRights(kind) {
				r.closeRights(parent, errCrowded) //nolint:errcheck // it tries until the context ends
			}
			m.wake()
		}
	}()
	in.parkAs(m.decidesRights(kind), func() {
		r.isCrowded.Store(true)
		end()
	})
}

// newStream returns a stream that does not run yet.
func (m *Member) newStream(kind streams.Kind) *stream {
	from := source{client: m.client, limiter: m.limiter, resource: kind.GroupVersionResource, namespaces: m.namespaces}
	if kind.GroupVersionResource == streams.InvolvedEvents.GroupVersionResource {
		from.resource = eventsResource
	}
	s := newStream(m.name, kind, from, m.store)
	s.answers, s.usage = &m.answers, m.usage
	if from.resource != kind.GroupVersionResource {
		s.involved = &m.involved
	}
	return s
}

// hangUp closes connections, of which the next start of the member may have as many again.
func (m *Member) hangUp() {
	for _, closeIdle := range m.limiter.closeIdle {
		closeIdle()
	}
	m.limiter.connections.end()
}

// cutOff closes the connections of the member some time after the context has ended, until stop is called: a request on a connection that
// takes nothing may not end by itself.
func (m *Member) cutOff(ctx context.Context) (stop func()) {
	over := make(chan struct{})
	end := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(m.limiter.endTime):
			m.hangUp()
		case <-over:
		}
	})
	return func() {
		end()
		close(over)
	}
}

// stop returns when all streams have ended.
func (m *Member) stop() {
	all := m.running()
	for _, r := range all {
		r.end()
	}
	for _, r := range all {
		<-r.done
	}
}
