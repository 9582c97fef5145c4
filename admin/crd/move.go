// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	apiregistrationclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"

	"github.com/tripod-k8s/tripod/admin/etcd/split"
	"github.com/tripod-k8s/tripod/base/migration"
	"github.com/tripod-k8s/tripod/base/storage/placement"
	"github.com/tripod-k8s/tripod/services/list"
)

// MoveOptions say which API group to move, and where to.
type MoveOptions struct {
	// Config is that of the cluster.
	Config *rest.Config
	Group  string
	// Service is the API service that gets the group. It is empty to move the group back to extensions.
	Service string
	// Abandon moves the group back to extensions without the objects that the service has, if the service is gone for good.
	Abandon bool
	// Etcd is the one with the CustomResourceDefinitions, and Prefix the --etcd-prefix of the services.
	Etcd   split.Etcd
	Prefix string
	// DryRun only says what would move.
	DryRun bool
	// PauseTTL is how long writes stay paused after the command has died, or 0 for the default.
	PauseTTL time.Duration
	// MaxPause is how long writes may pause for copies before the run gives up, or 0 for the default.
	MaxPause time.Duration
	// Progress gets a line about each step, and its progress.
	Progress func(line string)
}

// MoveReport says what was done.
type MoveReport struct {
	Group string `json:"group"`
	// To is the service that has the objects now, or extensions. Moved says that this run has brought them there.
	To    string `json:"to"`
	Moved bool   `json:"moved"`
	// Resources are what was compared, while writes were paused. With DryRun, it is what there is. With Abandon, it is what extensions has
	// left from before.
	Resources []Resource `json:"resources"`
	// Seconds is how long the run took, and PausedSeconds for how long writes were paused. With DryRun, both are estimates.
	Seconds       float64 `json:"seconds"`
	PausedSeconds float64 `json:"pausedSeconds"`
}

// The steps of a move, as the record has them (base/storage/placement):
//
//	extensions has the group    {Move: m}
//	both answer reads           {Service: s, Switching: true, Move: m}
//	the service has the group   {Service: s, Move: n}
//	objects are copied back     {Service: s, Move: n, Back: o}
//	both answer reads           {Service: s, Switching: true, Move: o, Back: o}
//	extensions has the group    {Move: o}
//
// Each step is one transaction in etcd. A run that finds any of them goes on from there.

// mover is one run.
type mover struct {
	*checker
	MoveOptions
	keeper      *split.Keeper
	definitions []*apiextensionsv1.CustomResourceDefinition
	// service has the objects, or gets them.
	service *owner
	// extensions has the definitions.
	extensions *owner
	// name is that of this run. The gates of the service have it, and the record while objects are copied back.
	name   string
	result MoveReport
	// copies are what was copied, by resource.
	copies map[string]*copied
	// floor is the first resourceVersion of the service after the move.
	floor int64
	// oneEtcd is set if the service has its objects in the etcd of extensions.
	oneEtcd bool
	// paused is when writes were paused, or this run has found them so.
	paused time.Time
}

// Move moves the custom resources of an API group from extensions to an API service, or back, while clients use them.
func Move(ctx context.Context, o MoveOptions) (*MoveReport, error) {
	if err := split.CheckCustom(o.Group); err != nil {
		return nil, err
	}
	if o.Abandon && o.Service != "" {
		return nil, errors.New("objects can only be given up on the way back")
	}
	c, err := newChecker(Options{Config: o.Config, Group: o.Group, Service: o.Service, Progress: o.Progress})
	if err != nil {
		return nil, err
	}
	m := &mover{
		checker: c, MoveOptions: o, name: "m-" + strings.ToLower(rand.Text()), copies: map[string]*copied{},
		result: MoveReport{Group: o.Group, To: o.Service, Resources: []Resource{}},
	}
	if m.back() {
		m.result.To = list.Extensions
	}
	if m.definitions, err = c.definitions(ctx); err != nil {
		return nil, err
	}
	m.keeper, err = split.Keep(ctx, split.KeeperOptions{
		Etcd: o.Etcd, Prefix: o.Prefix, Group: o.Group, To: m.result.To, PauseTTL: o.PauseTTL, Progress: o.Progress,
	})
	if err != nil {
		return nil, err
	}
	defer m.keeper.Close()
	if err := m.look(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Group, err)
	}
	if err := m.run(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Group, err)
	}
	return &m.result, nil
}

func (m *mover) back() bool { return m.Service == "" }

// look returns why the group cannot move.
func (m *mover) look(ctx context.Context) error {
	at := m.keeper.Record()
	service := m.Service
	switch {
	case at.Service == "" && (at.Own || at.Pending):
		return fmt.Errorf("its objects are in the etcd of a partition, or on their way: first run tripod migrate groups --to extensions %s",
			m.Group)
	case m.back() && at.Switching && at.Back == "" && !m.Abandon:
		return fmt.Errorf("a move to the API service %s has not ended: first run this with --to %[1]s", at.Service)
	case m.back() && at.Abandoned && !m.Abandon:
		return fmt.Errorf("a run with --abandon has not ended: run it again, or run this with --to %s to keep its objects", at.Service)
	case !m.back() && at.Switching && at.Back != "" && !at.Abandoned:
		return errors.New("a move back has not ended: first run this with --back")
	case !m.back() && at.Service != "" && at.Service != service:
		return fmt.Errorf("its objects are in the API service %s: first run this with --back", at.Service)
	case m.back() && at.Service == "":
		return nil // they are there
	case m.back():
		service = at.Service
	}
	m.checker.Service, m.service, m.extensions = service, &owner{m.checker, service}, &owner{m.checker, list.Extensions}
	check := m.checkService
	if m.Abandon {
		check = m.checkGone
	}
	if err := check(ctx); err != nil {
		return err
	}
	if err := m.checkEtcd(ctx); err != nil {
		return err
	}
	return m.checkRights(ctx)
}

// checkService returns how the service differs from the definitions.
func (m *mover) checkService(ctx context.Context) error {
	served, err := m.served(ctx)
	if err != nil {
		return err
	}
	for _, definition := range m.definitions {
		// While the group is between both, nothing can finish its deletion, so the move has to end first.
		if definition.DeletionTimestamp != nil && !m.keeper.Record().Switching {
			return fmt.Errorf("%s is being deleted", definition.Name)
		}
		if err := compare(definition, served, m.service.name); err != nil {
			return err
		}
	}
	if m.back() && !m.keeper.Record().Switching {
		return m.checkOthers(ctx, served)
	}
	return nil
}

// checkEtcd returns an error unless the etcd is that of extensions. In another one, the record would change nothing.
func (m *mover) checkEtcd(ctx context.Context) error {
	for _, definition := range m.definitions {
		has, err := m.keeper.HasDefinition(ctx, definition.Name)
		if err != nil {
			return err
		}
		if !has {
			return fmt.Errorf("--%s has no %s below %s: is it the etcd of extensions, and --etcd-prefix right?",
				m.Etcd.Flag, definition.Name, m.Prefix)
		}
	}
	same, err := m.isIn(ctx, m.extensions)
	if err == nil && !same {
		err = fmt.Errorf("the resourceVersions of extensions are not those of --%s: is it the etcd of extensions?", m.Etcd.Flag)
	}
	return err
}

// checkReturned returns an error if clients are led to an API service that they can write. Then its objects are not those of a move.
func (m *mover) checkReturned(ctx context.Context) error {
	client, err := apiregistrationclient.NewForConfig(m.Config)
	if err != nil {
		return err
	}
	for _, name := range m.apiServices() {
		at, err := client.APIServices().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("cannot read the APIService %s: %w", name, err)
		}
		owner := ownerOf(at)
		if owner == list.Extensions {
			continue
		}
		m.checker.Service = owner
		served, err := m.served(ctx)
		if err != nil {
			return fmt.Errorf("the APIService %s leads to %s: %w", name, owner, err)
		}
		for _, definition := range m.definitions {
			if moveOf(served, definition) == "" {
				return fmt.Errorf("the APIService %s leads to %s, where clients can write %s: no move has brought its objects there, so none can "+
					"bring them back", name, owner, definition.Name)
			}
		}
	}
	return nil
}

// checkOthers returns an error if the service has objects that extensions could not serve.
func (m *mover) checkOthers(ctx context.Context, served []migration.Resource) error {
	for _, resource := range served {
		defined := func(d *apiextensionsv1.CustomResourceDefinition) bool { return d.Spec.Names.Plural == resource.Name }
		if slices.ContainsFunc(m.definitions, defined) || len(resource.Versions) == 0 {
			continue
		}
		other := &apiextensionsv1.CustomResourceDefinition{}
		other.Name, other.Spec.Names.Plural = resource.Name+"."+m.Group, resource.Name
		other.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: resource.Versions[0], Served: true, Storage: true}}
		page, err := m.service.page(ctx, other, "", 1)
		if err != nil {
			return err
		}
		if len(page.Objects) > 0 {
			return fmt.Errorf("the service %s has objects of %s, of which there is no CustomResourceDefinition: create it, or delete them first",
				m.service.name, other.Name)
		}
	}
	return nil
}

// prune deletes what extensions has left of definitions that were deleted while the service had the group. Clients would see it again if
// they created such a definition.
func (m *mover) prune(ctx context.Context) error {
	var resources []string
	for _, definition := range m.definitions {
		resources = append(resources, definition.Spec.Names.Plural)
	}
	deleted, err := m.keeper.Prune(ctx, resources)
	if deleted > 0 {
		m.Progress(fmt.Sprintf("deleted %d objects from before the move of definitions that are gone", deleted))
	}
	return err
}

// run moves the objects, unless they are there.
func (m *mover) run(ctx context.Context) error {
	began := time.Now()
	at := m.keeper.Record()
	if m.back() && at.Service == "" && m.DryRun {
		m.Progress("its objects are in extensions")
		return nil
	}
	if m.DryRun && m.Abandon {
		m.result.Seconds = m.goneTime().Seconds()
		return m.countLeft(ctx)
	}
	if m.DryRun {
		return m.estimate(ctx)
	}
	unlock, err := m.keeper.Lock(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	switch {
	case m.back() && at.Service == "":
		m.Progress("its objects are in extensions")
		if err := m.checkReturned(ctx); err != nil {
			return err
		}
		err = m.lead(ctx, list.Extensions)
	case m.Abandon:
		err = m.abandon(ctx)
	case m.back():
		err = m.moveBack(ctx)
	default:
		err = m.moveOut(ctx)
	}
	if err != nil {
		return err
	}
	m.result.Seconds = time.Since(began).Seconds()
	if m.result.Moved {
		m.result.PausedSeconds = time.Since(m.paused).Seconds()
		m.Progress(fmt.Sprintf("moved; writes were paused for %.1f s", m.result.PausedSeconds))
	}
	return nil
}

// moveOut brings the group to the service.
func (m *mover) moveOut(ctx context.Context) error {
	at := m.keeper.Record()
	switch {
	case at.Abandoned:
		m.Progress("ending an interrupted run with --abandon, so the objects stay where they are")
		if _, err := m.keeper.Put(ctx, placement.Record{Own: true, Service: at.Service, Move: at.Move}); err != nil {
			return err
		}
		if err := m.lead(ctx, m.service.name); err != nil {
			return err
		}
	case at.IsAway() && at.Back != "":
		m.Progress("ending an interrupted move back, so the objects stay where they are")
		at.Back = ""
		if _, err := m.keeper.Put(ctx, at); err != nil {
			return err
		}
	case at.IsAway():
		m.Progress("its objects are in " + m.service.name)
		if err := m.settle(ctx); err != nil {
			return err
		}
		// Extensions may have become the owner while no aggregator knew the service.
		if err := m.lead(ctx, m.service.name); err != nil {
			return err
		}
	default:
		if err := m.give(ctx); err != nil {
			return err
		}
	}
	m.Progress("opening " + m.service.name + " for writes")
	return m.openGates(ctx)
}

// settle has older resourceVersions expire that clients may have read from extensions before an earlier run has died. While gates are
// closed, that is not known to be done.
func (m *mover) settle(ctx context.Context) error {
	served, err := m.served(ctx)
	if err != nil {
		return err
	}
	for _, definition := range m.definitions {
		if moveOf(served, definition) != "" {
			return m.raiseService(ctx, 0)
		}
	}
	return nil
}

// give copies what extensions has to the service, and gives it the group.
func (m *mover) give(ctx context.Context) error {
	m.paused = time.Now()
	if !m.keeper.Record().Switching {
		if err := m.copyOut(ctx); err != nil {
			return err
		}
	}
	m.Progress("leading clients to " + m.service.name)
	if err := m.lead(ctx, m.service.name); err != nil {
		return err
	}
	switched, err := m.keeper.Put(ctx, placement.Record{Own: true, Service: m.service.name, Move: m.name})
	if err != nil {
		return err
	}
	if !m.oneEtcd && switched >= m.floor { // later than clients may have read from extensions
		few, cancel := context.WithTimeout(ctx, m.most())
		defer cancel()
		if err := m.raiseService(few, 0); err != nil {
			return err
		}
	}
	m.result.Moved = true
	return nil
}

// ahead is how many revisions the next owner is raised beyond the former one while writes go on.
const ahead = 5000

// copyOut copies the objects to the service, and switches, so that no client can write them in extensions.
func (m *mover) copyOut(ctx context.Context) error {
	if err := m.checkRoute(ctx); err != nil {
		return err
	}
	if err := m.closeEmpty(ctx); err != nil {
		return err
	}
	source := &listed{m.checker}
	if err := m.copyAll(ctx, source, m.service); err != nil {
		return err
	}
	if err := m.raiseService(ctx, ahead); err != nil {
		return err
	}
	before := m.keeper.Record()
	return m.keeper.Pause(ctx, func(ctx context.Context) error {
		m.paused = time.Now()
		err := m.copyRest(ctx, source, m.service, func(ctx context.Context) error {
			return m.raiseService(ctx, ahead/5) // watches from before this copy would get it as events
		})
		if err != nil {
			return err
		}
		before.Own, before.Service, before.Switching = true, m.service.name, true
		_, err = m.keeper.Put(ctx, before)
		return err
	})
}

// copyRest copies what has changed while no client can write, compares, and raises the resourceVersions of the target.
func (m *mover) copyRest(ctx context.Context, from source, to *owner, raise func(context.Context) error) error {
	return split.Within(ctx, m.most(), func(ctx context.Context) error {
		if m.back() {
			if err := m.closeService(ctx); err != nil {
				return err
			}
		}
		if err := m.recheck(ctx); err != nil {
			return err
		}
		if err := m.copyAll(ctx, from, to); err != nil {
			return err
		}
		if err := m.compareAll(ctx, to); err != nil {
			return err
		}
		return raise(ctx)
	})
}

// most is how long clients may be unable to write.
func (m *mover) most() time.Duration { return cmp.Or(m.MaxPause, split.MaxPause) }

// closeService closes the service for writes, and for good.
func (m *mover) closeService(ctx context.Context) error {
	if err := m.closeGates(ctx); err != nil {
		return err
	}
	served, err := m.served(ctx)
	if err != nil {
		return err
	}
	return m.checkOthers(ctx, served)
}

// recheck returns how the definitions have changed since the run began.
func (m *mover) recheck(ctx context.Context) error {
	now, err := m.checker.definitions(ctx)
	if err != nil {
		return err
	}
	same := func(a, b *apiextensionsv1.CustomResourceDefinition) bool {
		return a.UID == b.UID && a.Generation == b.Generation && b.DeletionTimestamp == nil
	}
	if !slices.EqualFunc(m.definitions, now, same) {
		return errors.New("CustomResourceDefinitions of the group have changed meanwhile: nothing was moved; run this again")
	}
	return nil
}

// moveBack brings the group to extensions.
func (m *mover) moveBack(ctx context.Context) error {
	at := m.keeper.Record()
	m.paused = time.Now()
	if !at.Switching {
		if err := m.copyBack(ctx); err != nil {
			return err
		}
	}
	m.Progress("leading clients to extensions")
	if err := m.lead(ctx, list.Extensions); err != nil {
		return err
	}
	if err := m.prune(ctx); err != nil {
		return err
	}
	at = m.keeper.Record()
	last, err := m.service.version(ctx, m.definitions)
	if err != nil {
		return err
	}
	// Later than clients may have read from the service, unless both are in one etcd, or the service counts by time: extensions refuses such
	// resourceVersions as too new.
	if last >= at.Floor && last < split.NoRevision {
		floor, err := m.raiseExtensions(ctx)
		if err != nil {
			return err
		}
		if !m.oneEtcd {
			at.Floor = floor
		}
	}
	if _, err := m.keeper.Put(ctx, placement.Record{Move: at.Move, Floor: at.Floor}); err != nil {
		return err
	}
	m.result.Moved = true
	return nil
}

// copyBack copies the objects to extensions, closes the service for good, and switches.
func (m *mover) copyBack(ctx context.Context) error {
	at := m.keeper.Record()
	at.Back = m.name
	if _, err := m.keeper.Put(ctx, at); err != nil {
		return err
	}
	if err := m.copyAll(ctx, m.service, m.extensions); err != nil {
		return err
	}
	if _, err := m.raiseExtensions(ctx); err != nil {
		return err
	}
	m.Progress("closing " + m.service.name + " for writes")
	m.paused = time.Now()
	if err := m.switchBack(ctx); err != nil {
		return m.stay(ctx, err)
	}
	return nil
}

// reopenTimeout is how long a move back that has failed tries to open the service again.
const reopenTimeout = 30 * time.Second

// stay opens the service again after a move back has failed, unless it has switched.
func (m *mover) stay(ctx context.Context, failed error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reopenTimeout)
	defer cancel()
	at := m.keeper.Record()
	at.Back = ""
	_, err := m.keeper.Put(ctx, at)
	if err == nil {
		err = m.openGates(ctx)
	}
	if err != nil {
		return fmt.Errorf("%w; clients may be unable to write until you run this again, or with --to %s", failed, m.service.name)
	}
	return fmt.Errorf("%w; the objects stay in %s, and clients can write", failed, m.service.name)
}

// switchBack copies the rest while no client can write, and gives the group to extensions.
func (m *mover) switchBack(ctx context.Context) error {
	var floor int64
	err := m.copyRest(ctx, m.service, m.extensions, func(ctx context.Context) (err error) {
		floor, err = m.raiseExtensions(ctx)
		return err
	})
	if err != nil {
		return err
	}
	_, err = m.keeper.Put(ctx, placement.Record{
		Own: true, Service: m.service.name, Switching: true, Move: m.name, Back: m.name, Floor: floor,
	})
	return err
}

// raiseExtensions raises the revision of the etcd of extensions above those of the service, and returns it.
func (m *mover) raiseExtensions(ctx context.Context) (_ int64, err error) {
	if m.oneEtcd, err = m.hasOneEtcd(ctx); err != nil {
		return 0, err
	}
	if m.oneEtcd {
		return m.keeper.Revision(ctx)
	}
	last, err := m.service.version(ctx, m.definitions)
	if err != nil {
		return 0, err
	}
	return m.keeper.Raise(ctx, last+ahead)
}

// estimate says what would move, and how long that would take.
func (m *mover) estimate(ctx context.Context) error {
	began := time.Now()
	switch at := m.keeper.Record(); {
	case !m.back() && at.Service != "" || at.Switching:
		m.Progress("its objects are there, or a move has to be ended")
		return nil
	case m.back():
		for _, definition := range m.definitions {
			one, err := m.tryBack(ctx, definition)
			if err != nil {
				return err
			}
			m.result.Resources = append(m.result.Resources, one)
		}
	default:
		for _, definition := range m.definitions {
			one, err := m.try(ctx, definition)
			if err != nil {
				return err
			}
			m.result.Resources = append(m.result.Resources, one)
		}
	}
	once := time.Since(began).Seconds()
	// The objects are read, sent and stored once while clients write. While writes pause, both copies are read.
	m.result.PausedSeconds = once + fixedPause
	m.result.Seconds = 4*once + m.result.PausedSeconds
	return nil
}

// fixedPause is how many seconds writes pause without objects, by experience.
const fixedPause = 1

// closeEmpty closes the gates of the service, which must have no objects of its own. It may have those of an earlier move.
func (m *mover) closeEmpty(ctx context.Context) error {
	served, err := m.served(ctx)
	if err != nil {
		return err
	}
	for _, definition := range m.definitions {
		if moveOf(served, definition) != "" {
			continue
		}
		page, err := m.service.page(ctx, definition, "", 1)
		if err != nil {
			return err
		}
		if len(page.Objects) > 0 {
			return fmt.Errorf("the service %s has objects of its own in %s, which the move would replace: empty its storage first "+
				"(requests of clients go to extensions, and would delete those)", m.service.name, definition.Name)
		}
	}
	return m.closeGates(ctx)
}

// moveOf returns the move that has closed the gate of a resource.
func moveOf(served []migration.Resource, definition *apiextensionsv1.CustomResourceDefinition) string {
	i := slices.IndexFunc(served, func(r migration.Resource) bool { return r.Name == definition.Spec.Names.Plural })
	if i < 0 {
		return ""
	}
	return served[i].Move
}

// closeGates closes all gates of the service for this run, also those that an earlier one has closed.
func (m *mover) closeGates(ctx context.Context) error { return m.setGates(ctx, m.name) }

func (m *mover) openGates(ctx context.Context) error { return m.setGates(ctx, "") }

func (m *mover) setGates(ctx context.Context, to string) error {
	served, err := m.served(ctx)
	if err != nil {
		return err
	}
	// A run that has lost its lock, as on a machine that slept, must not touch the gates of the next one. It has read them before it looks at
	// the lock, and the service compares what it has read.
	if err := m.keeper.Held(ctx); err != nil {
		return err
	}
	for _, definition := range m.definitions {
		if from := moveOf(served, definition); from != to {
			if err := m.service.setGate(ctx, definition, &migration.Gate{From: from, To: to}); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxRaises bounds the requests that raise the resourceVersions of a service. Each raises those of an etcd by up to 50,000, so together
// that is as far as a move between etcds goes.
const maxRaises = split.Farthest / 50_000

// raiseService raises the resourceVersions of the service above those of extensions, and has older ones expire.
func (m *mover) raiseService(ctx context.Context, by int64) (err error) {
	if m.oneEtcd, err = m.hasOneEtcd(ctx); err != nil {
		return err
	}
	if m.oneEtcd {
		by = 0
	}
	above, err := m.keeper.Revision(ctx)
	if err != nil {
		return err
	}
	served, err := m.served(ctx)
	if err != nil {
		return err
	}
	m.floor = 0
	for _, definition := range m.definitions {
		move := moveOf(served, definition)
		gate := migration.Gate{From: move, To: move, Above: above + by}
		for calls := 0; gate.Floor == 0; calls++ {
			if calls > 0 {
				if err := m.checkDistance(ctx, above+by, calls); err != nil {
					return err
				}
			}
			if err := m.service.setGate(ctx, definition, &gate); err != nil {
				return err
			}
		}
		if m.floor == 0 || gate.Floor < m.floor {
			m.floor = gate.Floor
		}
	}
	return nil
}

// checkDistance reports how far the resourceVersions of the service are, and returns an error if they are not to come above another one.
func (m *mover) checkDistance(ctx context.Context, above int64, calls int) error {
	last, err := m.service.version(ctx, m.definitions)
	if err != nil {
		return err
	}
	if calls == maxRaises || above-last > split.Farthest {
		return fmt.Errorf("the resourceVersions of %s are at %d, and those of extensions at %d: to raise them by writing would take hours, "+
			"so give the service an etcd made of a snapshot of its own with a later revision (tripod etcd restore --bump-revision)",
			m.service.name, last, above)
	}
	m.Progress(fmt.Sprintf("raising the resourceVersions of %s from %d above %d", m.service.name, last, above))
	return nil
}

// looks is how often the revisions of two servers are compared.
const looks = 3

// hasOneEtcd reports whether the service has its objects in the etcd of extensions. Then resourceVersions of both are of one history.
func (m *mover) hasOneEtcd(ctx context.Context) (bool, error) { return m.isIn(ctx, m.service) }

// isIn reports whether the resourceVersions of an owner are those of the etcd.
func (m *mover) isIn(ctx context.Context, of *owner) (bool, error) {
	for range looks {
		before, err := m.keeper.Touch(ctx)
		if err != nil {
			return false, err
		}
		version, err := of.version(ctx, m.definitions)
		if err != nil {
			return false, err
		}
		after, err := m.keeper.Touch(ctx)
		if err != nil || version < before || version > after {
			return false, err
		}
	}
	return true, nil
}
