// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package split

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tripod-k8s/tripod/base/storage/etcdtest"
	"github.com/tripod-k8s/tripod/base/storage/placement"
)

const (
	movedGroup = "example.com"
	away, back = "big", "extensions"
	// fewAhead is less than ahead, so that tests raise etcds sooner.
	fewAhead = 500
)

var movedKeys = placement.KeysOf("/registry", movedGroup)

// newMoving returns a shared etcd with a group, and the etcd of a partition that waits for it.
func newMoving(t *testing.T) *pair {
	t.Helper()
	p := newPair(t)
	_, err := p.target.Put(t.Context(), movedKeys.Reader, "extensions-big")
	require.NoError(t, err)
	return p
}

// move moves the group. at is called with each line of progress, without the name of the group.
func (p *pair) move(ctx context.Context, to string, at func(line string), change func(*GroupOptions)) (*GroupReport, error) {
	o := GroupOptions{
		Shared: Etcd{Flag: "extensions-etcd", Servers: p.source.Endpoints()}, Own: Etcd{Flag: "partition-etcd", Servers: p.target.Endpoints()},
		To: to, Groups: []string{movedGroup}, Prefix: "registry/", ahead: fewAhead,
		Progress: func(line string) {
			if at != nil {
				at(strings.TrimPrefix(line, movedGroup+": "))
			}
		},
	}
	if change != nil {
		change(&o)
	}
	reports, err := MoveGroups(ctx, o)
	if err != nil {
		return nil, err
	}
	return &reports[0], nil
}

// state is where the objects are, and which etcds replicas may write.
func (p *pair) state(t *testing.T) (isAway, sharedOpen, ownOpen bool) {
	t.Helper()
	shared, err := movedKeys.Read(t.Context(), p.source)
	require.NoError(t, err)
	own, err := movedKeys.Read(t.Context(), p.target)
	require.NoError(t, err)
	isAway = shared.IsOwn()
	return isAway, !isAway && !shared.Paused, isAway && own.IsOwn() && own.Record.Move == shared.Record.Move && !own.Paused
}

// expect fails the test unless the objects are in one etcd, all of them, and only that may be written.
func (p *pair) expect(t *testing.T, to string, objects map[string]string) {
	t.Helper()
	isAway, sharedOpen, ownOpen := p.state(t)
	assert.Equal(t, to == away, isAway, "where the objects are")
	assert.Equal(t, [2]bool{to != away, to == away}, [2]bool{sharedOpen, ownOpen}, "which may be written")
	p.expectObjects(t, objects)
}

func (p *pair) expectObjects(t *testing.T, objects map[string]string) {
	t.Helper()
	isAway, _, _ := p.state(t)
	client := map[bool]*clientv3.Client{true: p.target, false: p.source}[isAway]
	if got := contents(t, client, widgetsP); !maps.Equal(got, objects) {
		t.Errorf("there are %d objects, want %d", len(got), len(objects))
	}
}

func TestAGroupMovesAndMovesBack(t *testing.T) {
	t.Parallel()
	p := newMoving(t)
	objects := contents(t, p.source, widgetsP)
	for _, to := range []string{away, back, away} {
		source, target := p.source, p.target
		if to == back {
			source, target = target, source
		}
		before, err := revision(t.Context(), source)
		require.NoError(t, err)
		report, err := p.move(t.Context(), to, nil, nil)
		require.NoError(t, err)
		assert.True(t, report.Moved)
		require.Len(t, report.Resources, 1)
		assert.Equal(t, int64(len(objects)), report.Resources[0].Objects)
		assert.Greater(t, report.Floor, before, "no resourceVersion goes back")
		p.expect(t, to, objects)
		again, err := p.move(t.Context(), to, nil, nil)
		require.NoError(t, err)
		assert.False(t, again.Moved)
		// What a replica writes in the meantime is there after the next move.
		for key, value := range map[string]string{widgetsP + "default/new-" + to: "new", widgetsP + "default/w-3": to} {
			_, err = target.Put(t.Context(), key, value)
			require.NoError(t, err)
			objects[key] = value
		}
		_, err = target.Delete(t.Context(), widgetsP+"default/w-"+fmt.Sprint(10+len(objects)-widgets))
		require.NoError(t, err)
		objects = contents(t, target, widgetsP)
	}
}

// A client may hold any state that an object has had in the source, and change it on condition of its resourceVersion.
func TestNoResourceVersionNamesTwoStates(t *testing.T) {
	t.Parallel()
	p := newMoving(t)
	for _, to := range []string{away, back, away} {
		source, target := p.source, p.target
		if to == back {
			source, target = target, source
		}
		const changed = widgetsP + "default/w-7"
		_, err := p.move(t.Context(), to, func(line string) {
			if line == "pausing writes" { // after the first copy, while the source is raised by others
				_, err := source.Put(t.Context(), changed, "a")
				require.NoError(t, err)
				writeOther(t, source, 2*fewAhead)
				_, err = source.Put(t.Context(), changed, "b of "+to)
				require.NoError(t, err)
			}
		}, nil)
		require.NoError(t, err)
		was, err := source.Get(t.Context(), widgetsP, clientv3.WithPrefix())
		require.NoError(t, err)
		versions := map[string]int64{}
		for _, kv := range was.Kvs {
			versions[string(kv.Key)] = kv.ModRevision
		}
		is, err := target.Get(t.Context(), widgetsP, clientv3.WithPrefix())
		require.NoError(t, err)
		assert.Len(t, is.Kvs, widgets)
		for _, kv := range is.Kvs {
			require.Greater(t, kv.ModRevision, versions[string(kv.Key)], "%s goes back, to %s", kv.Key, to)
		}
	}
}

// Objects that are written after the first copy may have the same value as it.
func TestAnObjectThatIsAsBeforeIsCopiedAgain(t *testing.T) {
	t.Parallel()
	p := newMoving(t)
	const same = widgetsP + "default/w-7"
	value := contents(t, p.source, same)[same]
	_, err := p.move(t.Context(), away, func(line string) {
		if line == "pausing writes" {
			writeOther(t, p.source, 2*fewAhead)
			p.put(t, same, value)
		}
	}, nil)
	require.NoError(t, err)
	was, err := p.source.Get(t.Context(), same)
	require.NoError(t, err)
	is, err := p.target.Get(t.Context(), same)
	require.NoError(t, err)
	assert.Greater(t, is.Kvs[0].ModRevision, was.Kvs[0].ModRevision)
}

// The first of several moves may take hours.
func TestEachMoveLooksWhenItsTurnComes(t *testing.T) {
	t.Parallel()
	p := newMoving(t)
	const second = "sub.example.com"
	keys := placement.KeysOf("/registry", second)
	_, err := p.target.Put(t.Context(), keys.Reader, "extensions-big")
	require.NoError(t, err)
	var once sync.Once
	_, err = p.move(t.Context(), away, func(line string) {
		if line == "copied widgets.example.com: 450 objects" {
			once.Do(func() {
				_, err := p.move(t.Context(), away, nil, func(o *GroupOptions) { o.Groups = []string{second} })
				assert.NoError(t, err)
			})
		}
	}, func(o *GroupOptions) { o.Groups = append(o.Groups, second) })
	require.NoError(t, err)
	state, err := keys.Read(t.Context(), p.source)
	require.NoError(t, err)
	assert.True(t, state.IsOwn())
}

func TestWritesUntilThePauseMove(t *testing.T) {
	t.Parallel()
	p := newMoving(t)
	report, err := p.move(t.Context(), away, func(line string) {
		if line == "pausing writes" {
			p.put(t, widgetsP+"default/late", "late")
			p.put(t, widgetsP+"default/w-7", "changed")
			_, err := p.source.Delete(t.Context(), widgetsP+"default/w-8")
			require.NoError(t, err)
		}
	}, nil)
	require.NoError(t, err)
	assert.Equal(t, int64(widgets), report.Resources[0].Objects)
	p.expect(t, away, contents(t, p.source, widgetsP))
}

// Writes of other groups go on in the source, and lists of the group have their revision.
func TestTheFloorIsBeyondWritesOfOtherGroups(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"comparing both etcds", "switching"} {
		for _, to := range []string{away, back} {
			t.Run(line+" to "+to, func(t *testing.T) {
				p := newMoving(t)
				_, err := p.move(t.Context(), other(to), nil, nil)
				require.NoError(t, err)
				source, target := p.source, p.target
				if to == back {
					source, target = target, source
				}
				report, err := p.move(t.Context(), to, func(at string) {
					if at == line {
						writeOther(t, source, 2*fewAhead)
					}
				}, nil)
				require.NoError(t, err)
				listed, err := revision(t.Context(), source)
				require.NoError(t, err)
				assert.Greater(t, report.Floor, listed, "a watch from then would miss events")
				state, err := movedKeys.Read(t.Context(), target)
				require.NoError(t, err)
				assert.Equal(t, report.Floor, state.Record.Floor)
				assert.False(t, state.Record.Pending)
				now, err := revision(t.Context(), target)
				require.NoError(t, err)
				assert.GreaterOrEqual(t, now, report.Floor)
			})
		}
	}
}

func writeOther(t *testing.T, etcd *clientv3.Client, revisions int64) {
	t.Helper()
	s := split{target: etcd, Options: Options{Progress: func(string) {}}}
	now, err := revision(t.Context(), etcd)
	require.NoError(t, err)
	require.NoError(t, s.writeUntil(t.Context(), now, now+revisions))
}

// TestAMoveThatIsInterrupted interrupts a move at each line of its progress. Afterwards, the objects are in one etcd.
func TestAMoveThatIsInterrupted(t *testing.T) {
	t.Parallel()
	for _, to := range []string{away, back} {
		t.Run("to "+to, func(t *testing.T) {
			t.Parallel()
			var lines []string
			p := newMoving(t)
			objects := contents(t, p.source, widgetsP)
			_, err := p.move(t.Context(), other(to), nil, nil)
			require.NoError(t, err)
			_, err = p.move(t.Context(), to, func(line string) { lines = append(lines, line) }, nil)
			require.NoError(t, err)
			assert.Greater(t, len(lines), 5)
			for n := range lines {
				t.Run(fmt.Sprintf("at line %d", n), func(t *testing.T) { p.testInterrupted(t, to, n, objects) })
			}
		})
	}
}

func other(to string) string { return map[string]string{away: back, back: away}[to] }

func (p *pair) testInterrupted(t *testing.T, to string, at int, objects map[string]string) {
	_, err := p.move(t.Context(), other(to), nil, nil)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := 0
	_, _ = p.move(ctx, to, func(string) {
		if seen == at {
			cancel()
		}
		seen++
	}, nil)
	isAway, sharedOpen, ownOpen := p.state(t)
	assert.False(t, sharedOpen && ownOpen, "both may be written")
	assert.False(t, isAway && sharedOpen || !isAway && ownOpen, "an etcd may be written that does not have the objects")
	p.expectObjects(t, objects)
	for _, to := range []string{other(to), to} {
		_, err := p.move(t.Context(), to, nil, nil)
		require.NoError(t, err)
		p.expect(t, to, objects)
	}
}

func TestAMoveThatCannotBe(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, to, want string
		before         func(*testing.T, *pair)
		at             string
		do             func(*testing.T, *pair)
		change         func(*pair, *GroupOptions)
	}{
		{name: "an unknown partition", to: "huge", want: "no replica of the partition huge has the etcd of --partition-etcd for this group"},
		{name: "another partition than the one that has the objects", to: "huge", before: func(t *testing.T, p *pair) {
			t.Helper()
			_, err := p.move(t.Context(), away, nil, nil)
			require.NoError(t, err)
		}, want: "its objects are in --partition-etcd, which is the etcd of extensions-big for this group, and not of a partition huge"},
		{name: "no name of a partition", to: "Huge", want: `--to: "Huge" is not the name of a partition`},
		{name: "a built-in group", to: away, want: `"apps" is not an API group of custom resources`, change: func(_ *pair, o *GroupOptions) {
			o.Groups = append(o.Groups, "apps")
		}},
		{name: "a group without definitions", to: away, want: "example.org: --extensions-etcd has no CustomResourceDefinitions of this group",
			change: func(_ *pair, o *GroupOptions) { o.Groups = append(o.Groups, "example.org") }},
		{name: "a group twice", to: away, want: "example.com is given twice", change: func(_ *pair, o *GroupOptions) {
			o.Groups = append(o.Groups, movedGroup)
		}},
		{name: "the same etcd", to: away, want: "are the same etcd", change: func(p *pair, o *GroupOptions) { o.Own.Servers = p.source.Endpoints() }},
		{name: "another etcd than that of the partition", to: back, want: "which is not the one of --partition-etcd", before: func(t *testing.T, p *pair) {
			t.Helper()
			_, err := p.move(t.Context(), away, nil, nil)
			require.NoError(t, err)
			p.target = etcdtest.Start(t)
		}},
		{name: "a group that an API service has", to: away, want: "first bring them back, by tripod migrate crd example.com --back",
			before: func(t *testing.T, p *pair) {
				t.Helper()
				p.put(t, movedKeys.Record, `{"own": true, "move": "one", "service": "books"}`)
			}},
		{name: "another move at the same time", to: away, want: "another move has paused writes", before: func(t *testing.T, p *pair) {
			t.Helper()
			p.put(t, movedKeys.Pause, "big")
		}},
		{name: "writes that did not pause", to: away, want: "widgets.example.com differs", at: "comparing both etcds", do: func(t *testing.T, p *pair) {
			t.Helper()
			p.put(t, widgetsP+"default/late", "")
		}},
		{name: "a pause that has ended", to: away, want: "writes were no longer paused: nothing was moved", at: "switching",
			do: func(t *testing.T, p *pair) {
				t.Helper()
				_, err := p.source.Delete(t.Context(), movedKeys.Pause)
				require.NoError(t, err)
			}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newMoving(t)
			if test.before != nil {
				test.before(t, p)
			}
			before, _, _ := p.state(t)
			_, err := p.move(t.Context(), test.to, func(line string) {
				if line == test.at {
					test.do(t, p)
				}
			}, func(o *GroupOptions) {
				if test.change != nil {
					test.change(p, o)
				}
			})
			require.ErrorContains(t, err, test.want)
			assert.NotContains(t, err.Error(), "\n", "one line")
			after, _, _ := p.state(t)
			assert.Equal(t, before, after, "nothing moved")
		})
	}
}

func TestAnEstimateChangesNothing(t *testing.T) {
	t.Parallel()
	p := newMoving(t)
	report, err := p.move(t.Context(), away, nil, func(o *GroupOptions) { o.DryRun = true })
	require.NoError(t, err)
	assert.False(t, report.Moved)
	assert.Equal(t, int64(widgets), report.Resources[0].Objects)
	assert.Positive(t, report.Bytes)
	assert.Positive(t, report.PausedSeconds)
	assert.Empty(t, contents(t, p.target, widgetsP))
	p.expect(t, back, contents(t, p.source, widgetsP))
}

func TestWhatWasMovedIsDeletedWhereItWas(t *testing.T) {
	t.Parallel()
	p := newMoving(t)
	objects := contents(t, p.source, widgetsP)
	_, err := p.move(t.Context(), away, nil, nil)
	require.NoError(t, err)
	report, err := p.move(t.Context(), away, nil, func(o *GroupOptions) { o.DeleteSource = true })
	require.NoError(t, err)
	assert.Equal(t, int64(widgets), report.DeletedFromSource)
	assert.Empty(t, contents(t, p.source, widgetsP))
	assert.Len(t, contents(t, p.source, "/registry/sub.example.com/"), gadgets, "other groups stay")
	p.expect(t, away, objects)
}

// Replicas that have not read the switch yet look at the record in the etcd that they read.
func TestThePartitionsEtcdSaysThatTheObjectsHaveLeftBeforeTheyAreDeleted(t *testing.T) {
	t.Parallel()
	p := newMoving(t)
	_, err := p.move(t.Context(), away, nil, nil)
	require.NoError(t, err)
	left := func() bool {
		state, err := movedKeys.Read(t.Context(), p.target)
		require.NoError(t, err)
		return state.Record.Left
	}
	var whileSwitching, whileDeleting bool
	report, err := p.move(t.Context(), back, func(line string) {
		switch line {
		case "switching":
			whileSwitching = left()
		case "deleting widgets.example.com where it was":
			whileDeleting = left()
		}
	}, func(o *GroupOptions) { o.DeleteSource = true })
	require.NoError(t, err)
	assert.Positive(t, report.DeletedFromSource)
	assert.False(t, whileSwitching, "replicas still read there")
	assert.True(t, whileDeleting)
	// A move that has died after the switch is finished by the next one.
	_, err = p.target.Do(t.Context(), movedKeys.Put(placement.Record{Move: "died"}))
	require.NoError(t, err)
	_, err = p.move(t.Context(), back, nil, nil)
	require.NoError(t, err)
	assert.True(t, left())
}

func TestAPauseThatTakesTooLongEnds(t *testing.T) {
	t.Parallel()
	p := newMoving(t)
	_, err := p.move(t.Context(), away, nil, func(o *GroupOptions) { o.MaxPause = time.Nanosecond })
	require.ErrorContains(t, err, "writes were paused for 1ns, which is --max-pause, and nothing was moved")
	p.expect(t, back, contents(t, p.source, widgetsP))
	_, err = p.move(t.Context(), away, nil, nil)
	require.NoError(t, err)
	p.expect(t, away, contents(t, p.source, widgetsP))
}

func TestOneMoveOfAGroupAtATime(t *testing.T) {
	t.Parallel()
	p := newMoving(t)
	objects := contents(t, p.source, widgetsP)
	var once sync.Once
	_, err := p.move(t.Context(), away, func(string) {
		once.Do(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			_, err := p.move(ctx, away, func(line string) {
				assert.Equal(t, "waiting for another move to end", line)
				cancel()
			}, nil)
			assert.ErrorContains(t, err, "another move of this group is under way")
		})
	}, nil)
	require.NoError(t, err)
	p.expect(t, away, objects)
	for _, etcd := range []*clientv3.Client{p.source, p.target} {
		answer, err := etcd.Get(t.Context(), movedKeys.Mover)
		require.NoError(t, err)
		assert.Empty(t, answer.Kvs, "it is unlocked")
	}
}

// A process may stand still until its lock has ended, and another move may have given the etcd to clients.
func TestAMoveThatStoodStillChangesNothing(t *testing.T) {
	t.Parallel()
	for _, locked := range []string{"source", "target"} {
		t.Run(locked, func(t *testing.T) {
			p := newMoving(t)
			var objects, copied map[string]string
			_, err := p.move(t.Context(), away, func(line string) {
				if line != "pausing writes" || objects != nil {
					return
				}
				_, err := p.source.Put(t.Context(), widgetsP+"default/late", "late")
				assert.NoError(t, err)
				_, err = map[string]*clientv3.Client{"source": p.source, "target": p.target}[locked].Delete(t.Context(), movedKeys.Mover)
				assert.NoError(t, err)
				objects, copied = contents(t, p.source, widgetsP), contents(t, p.target, widgetsP)
			}, nil)
			require.Error(t, err)
			p.expect(t, back, objects)
			assert.Equal(t, copied, contents(t, p.target, widgetsP), "the target")
		})
	}
}

// A shared etcd that was restored, or was made by an older split, knows nothing of the move. A user may also have changed its record.
func TestAMoveThatTheSharedEtcdHasForgotten(t *testing.T) {
	t.Parallel()
	for name, forgotten := range map[string]struct {
		record clientv3.Op
		both   string
	}{
		"without a record":       {clientv3.OpDelete(movedKeys.Record), "has lost the record of this group"},
		"with the one of before": {movedKeys.Put(placement.Record{Move: "before"}), "both have objects, and each has a record that they are there"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newMoving(t)
			objects := contents(t, p.source, widgetsP)
			moved, err := p.move(t.Context(), away, nil, nil)
			require.NoError(t, err)
			_, err = p.target.Put(t.Context(), widgetsP+"default/new", "new")
			require.NoError(t, err)
			objects[widgetsP+"default/new"] = "new"
			_, err = p.source.Do(t.Context(), forgotten.record)
			require.NoError(t, err)

			for _, to := range []string{away, back} {
				_, err = p.move(t.Context(), to, nil, nil)
				require.ErrorContains(t, err, forgotten.both, to)
				assert.Equal(t, objects, contents(t, p.target, widgetsP), "nothing is changed")
			}
			_, err = p.source.Delete(t.Context(), widgetsP, clientv3.WithPrefix())
			require.NoError(t, err)
			_, err = p.move(t.Context(), back, nil, nil)
			require.ErrorContains(t, err, "first write it again")
			report, err := p.move(t.Context(), away, nil, nil)
			require.NoError(t, err)
			assert.False(t, report.Moved)
			p.expect(t, away, objects)
			assert.Equal(t, moved.Floor, report.Floor, "no client has seen another etcd")
			_, err = p.move(t.Context(), back, nil, nil)
			require.NoError(t, err)
			p.expect(t, back, objects)
		})
	}
}

// A replica that looks then takes the objects from the shared etcd, until the other one records that it has them.
func TestAMoveWhoseSwitchIsUndoneFails(t *testing.T) {
	t.Parallel()
	for name, forgery := range map[string]clientv3.Op{
		"deleted": clientv3.OpDelete(movedKeys.Record), "elsewhere": movedKeys.Put(placement.Record{Move: "forged"}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newMoving(t)
			objects := contents(t, p.source, widgetsP)
			_, err := p.move(t.Context(), away, func(line string) {
				if line == "ending the move" {
					_, err := p.source.Do(t.Context(), forgery)
					assert.NoError(t, err)
				}
			}, nil)
			require.ErrorContains(t, err, "has changed the record of the group in --extensions-etcd during the move")
			assert.Equal(t, objects, contents(t, p.source, widgetsP))
			assert.Equal(t, objects, contents(t, p.target, widgetsP))
		})
	}
}

// Such a record would have clients see the objects of before the move back.
func TestARecordOfBeforeOpensNoEtcdThatTheObjectsHaveLeft(t *testing.T) {
	t.Parallel()
	p := newMoving(t)
	_, err := p.move(t.Context(), away, nil, nil)
	require.NoError(t, err)
	before, err := movedKeys.Read(t.Context(), p.source)
	require.NoError(t, err)
	_, err = p.move(t.Context(), back, nil, nil)
	require.NoError(t, err)
	_, err = p.source.Do(t.Context(), movedKeys.Put(*before.Record))
	require.NoError(t, err)
	for _, to := range []string{away, back} {
		_, err = p.move(t.Context(), to, nil, nil)
		require.ErrorContains(t, err, "its objects have left --partition-etcd", to)
	}
	_, err = p.source.Do(t.Context(), movedKeys.Put(placement.Record{Own: true, Move: "unknown"}))
	require.NoError(t, err)
	_, err = p.move(t.Context(), away, nil, nil)
	require.ErrorContains(t, err, "which is not the one of --partition-etcd")
}

// A move may die after the switch, before it knows how far clients have come in the etcd that had the objects.
func TestAMoveThatHasSwitchedIsEndedByTheNext(t *testing.T) {
	t.Parallel()
	for _, to := range []string{away, back} {
		t.Run("to "+to, func(t *testing.T) {
			t.Parallel()
			p := newMoving(t)
			objects := contents(t, p.source, widgetsP)
			_, err := p.move(t.Context(), other(to), nil, nil)
			require.NoError(t, err)
			_, err = p.move(t.Context(), to, nil, nil)
			require.NoError(t, err)
			source, target := p.source, p.target
			if to == back {
				source, target = target, source
			}
			at, err := movedKeys.Read(t.Context(), target)
			require.NoError(t, err)
			_, err = target.Do(t.Context(), movedKeys.Put(placement.Record{Own: to == away, Move: at.Record.Move, Pending: true}))
			require.NoError(t, err)
			if to == back {
				_, err = source.Do(t.Context(), movedKeys.Put(placement.Record{Move: "closed"}))
				require.NoError(t, err)
			}
			writeOther(t, source, 5*fewAhead)
			last, err := revision(t.Context(), source)
			require.NoError(t, err)
			report, err := p.move(t.Context(), to, nil, nil)
			require.NoError(t, err)
			assert.False(t, report.Moved)
			assert.Greater(t, report.Floor, last)
			if at, err = movedKeys.Read(t.Context(), target); assert.NoError(t, err) {
				assert.Equal(t, placement.Record{Own: to == away, Move: at.Record.Move, Floor: report.Floor}, *at.Record)
			}
			if at, err = movedKeys.Read(t.Context(), p.target); assert.NoError(t, err) {
				assert.Equal(t, to == back, at.Record.Left)
			}
			p.expect(t, to, objects)
		})
	}
}

func TestWhatOtherResourcesHaveLeftIsDeleted(t *testing.T) {
	t.Parallel()
	p := newMoving(t)
	for _, key := range []string{"gadgets/default/a", "gadgets/b", "widget/c", "zebras/d"} {
		_, err := p.source.Put(t.Context(), movedKeys.Objects+key, "left")
		require.NoError(t, err)
	}
	before := contents(t, p.source, widgetsP)
	k, err := Keep(t.Context(), KeeperOptions{
		Etcd: Etcd{Flag: "extensions-etcd", Servers: p.source.Endpoints()}, Prefix: "/registry", Group: movedGroup, To: "books",
		Progress: func(string) {},
	})
	require.NoError(t, err)
	defer k.Close()
	unlock, err := k.Lock(t.Context())
	defer unlock()
	require.NoError(t, err)
	deleted, err := k.Prune(t.Context(), []string{"widgets", "zebras"})
	require.NoError(t, err)
	assert.Equal(t, int64(3), deleted)
	assert.Equal(t, before, contents(t, p.source, widgetsP))
	assert.Len(t, contents(t, p.source, movedKeys.Objects+"zebras/"), 1)
	for _, left := range []string{"gadgets/", "widget/"} {
		assert.Empty(t, contents(t, p.source, movedKeys.Objects+left), left)
	}
	_, err = p.source.Txn(t.Context()).Then(movedKeys.Put(placement.Record{Move: "another"})).Commit()
	require.NoError(t, err)
	_, err = k.Prune(t.Context(), []string{"widgets"})
	require.ErrorContains(t, err, "another move has begun")
	assert.Len(t, contents(t, p.source, movedKeys.Objects+"zebras/"), 1)
}
