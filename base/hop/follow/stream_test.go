// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

type conn struct {
	grpc.ClientConnInterface
	closed *int
}

func (c conn) Close() error { *c.closed++; return nil }

// attempt is what happens when Follow tries a replica.
type attempt struct {
	dial error
	// lasts is how long the replica gives signs of life, and silent how long it then gives none.
	lasts, silent time.Duration
	ends          error
}

// try follows replicas (a and b by default) through these attempts, in order. It returns the addresses with the times since the start, and the
// failures.
func try(t *testing.T, replicas string, attempts ...attempt) (tried, failed []string) {
	began := time.Now()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	dialled, closed, retries := 0, 0, 0
	s := Stream{
		Name:      "test",
		Addresses: func() []string { return strings.Fields(replicas) },
		Silence:   3 * time.Second,
		Failed:    func(err error) { failed = append(failed, err.Error()) },
		Retry:     func() { retries++ },
	}
	next := func() attempt { return attempts[len(tried)-1] }
	s.Dial = func(address string) (Conn, error) {
		tried = append(tried, address+" "+time.Since(began).Round(10*time.Second).String())
		if len(tried) > len(attempts) {
			stop()
			return nil, errors.New("the test is over")
		}
		if err := next().dial; err != nil {
			return nil, err
		}
		dialled++
		return conn{closed: &closed}, nil
	}
	s.Run = func(ctx context.Context, session *Session) error {
		for end := time.Now().Add(next().lasts); time.Now().Before(end); time.Sleep(time.Second) {
			session.Alive()
		}
		select {
		case <-time.After(next().silent):
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
		return next().ends
	}
	s.Follow(ctx)
	assert.Equal(t, closed, dialled, "%d of %d connections were closed", closed, dialled)
	assert.Equal(t, len(failed), retries, "%d retries after %d failures", retries, len(failed))
	return tried[:len(attempts)], failed
}

func TestWhyNoReplicaIsFollowed(t *testing.T) {
	for name, test := range map[string]struct {
		replicas string
		attempt  attempt
		want     string
	}{
		"it cannot be dialled":      {"a", attempt{dial: errors.New("no certificate")}, "a: no certificate"},
		"it ends the stream":        {"a", attempt{ends: io.EOF}, "a: it ended the stream"},
		"it ends it without a word": {"a", attempt{}, "a: it ended the stream"},
		"it is silent":              {"a", attempt{silent: time.Minute}, "a: it was silent for too long"},
		"it refuses":                {"a", attempt{ends: status.Error(codes.Unavailable, "not ready")}, "a: not ready"},
		"something else":            {"a", attempt{ends: errors.New("it does not say which run it is")}, "a: it does not say which run it is"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, failed := try(t, test.replicas, test.attempt, test.attempt)
				assert.Contains(t, failed, test.want, "failures")
			})
		})
	}
}

func TestNobodyIsFollowedWhereNoReplicaIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		s := Stream{Addresses: func() []string { return nil }, Failed: func(err error) {
			assert.ErrorIs(t, err, errNone)
			stop()
		}}
		s.Follow(ctx)
	})
}

func TestThePausesAreAfterRoundsInWhichNoReplicaWasFollowed(t *testing.T) {
	refused := attempt{ends: errors.New("connection refused")}
	for name, test := range map[string]struct {
		attempts []attempt
		// failures counts the rounds that followed no replica.
		failures int
	}{
		"each is tried once a round":                           {[]attempt{refused, refused, refused, refused}, 2},
		"when one is lost that was steady the next comes soon": {[]attempt{{lasts: time.Minute}, {lasts: time.Minute}, {lasts: time.Minute}}, 0},
		"when one is lost soon the others are tried once more": {[]attempt{refused, {lasts: 2 * time.Second}, refused, refused, refused}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if _, failed := try(t, "a b", test.attempts...); len(failed) != test.failures {
					t.Errorf("failures %q, want %d", failed, test.failures)
				}
			})
		})
	}
}

func TestReplicasAreTriedInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tried, _ := try(t, "a b c", attempt{lasts: time.Minute}, attempt{lasts: time.Minute}, attempt{lasts: time.Minute}, attempt{lasts: time.Minute})
		addresses := []string{}
		for _, one := range tried {
			address, _, _ := strings.Cut(one, " ")
			addresses = append(addresses, address)
		}
		if slices.SortFunc(addresses[1:], cmp.Compare); len(slices.Compact(addresses[1:])) != 3 {
			t.Errorf("tried %q, want all three", tried)
		}
	})
}

func TestAStreamThatSomebodyLeavesEndsWithTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		why := errors.New("another run answers")
		s := Stream{
			Addresses: func() []string { return []string{"a"} },
			Dial:      func(string) (Conn, error) { return conn{closed: new(int)}, nil },
			Run: func(ctx context.Context, session *Session) error {
				go session.Leave(why)
				<-ctx.Done()
				return ctx.Err()
			},
			Failed: func(err error) {
				assert.ErrorIs(t, err, why)
				stop()
			},
		}
		s.Follow(ctx)
	})
}

// dials follows a replica that ends each stream after a given time, and returns the pauses before the next streams.
func dials(t *testing.T, lasts ...time.Duration) (pauses []time.Duration) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var ended time.Time
	s := Stream{Name: "test", Addresses: func() []string { return []string{"a"} }}
	s.Dial = func(string) (Conn, error) {
		if !ended.IsZero() {
			pauses = append(pauses, time.Since(ended))
		}
		if len(pauses) == len(lasts) {
			stop()
		}
		return conn{closed: new(int)}, nil
	}
	s.Run = func(ctx context.Context, session *Session) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		session.Alive()
		time.Sleep(lasts[len(pauses)])
		ended = time.Now()
		return io.EOF
	}
	s.Follow(ctx)
	return pauses
}

func TestAReplicaThatEndsEachStreamIsAskedLessOften(t *testing.T) {
	const often, seldom = 6 * time.Second, 2 * time.Minute
	synctest.Test(t, func(t *testing.T) {
		pauses := dials(t, seldom, often, often, often, often, often, seldom)
		for i, most := range []time.Duration{100, 200, 400, 800, 800, 800, 100} {
			most *= time.Millisecond
			if pauses[i] < most/2 || pauses[i] >= most {
				t.Errorf("pause %d is %s, want %s to %s", i, pauses[i], most/2, most)
			}
		}
	})
}

func TestThoseWhoLoseAReplicaTogetherDoNotGoToTheNextAtOnce(t *testing.T) {
	const streams = 100
	synctest.Test(t, func(t *testing.T) {
		at := map[time.Duration]int{}
		for range streams {
			at[dials(t, time.Hour)[0].Truncate(10*time.Millisecond)]++
		}
		for when, n := range at {
			if n > streams/2 {
				t.Errorf("%d of %d dial %s later", n, streams, when)
			}
		}
	})
}

func TestAPanicEndsOnlyTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		runs := 0
		var failed []string
		s := Stream{
			Name: "test", Addresses: func() []string { return []string{"a"} },
			Dial: func(string) (Conn, error) { return conn{closed: new(int)}, nil },
			Run: func(context.Context, *Session) error {
				if runs++; runs == 2 {
					stop()
					return io.EOF
				}
				panic("a lie found a mistake")
			},
			Failed: func(err error) { failed = append(failed, err.Error()) },
		}
		s.Follow(ctx)
		assert.Equal(t, []string{"a: test: handling it panicked; the log says where"}, failed)
	})
}

// TestASilentReplicaIsFollowedUntilItCanBeSpared has a replica be silent while no other is better.
func TestASilentReplicaIsFollowedUntilItCanBeSpared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		began, spare := time.Now(), false
		s := Stream{
			Name: "test", Silence: 3 * time.Second, Addresses: func() []string { return []string{"a"} }, Spare: func(string) bool { return spare },
			Dial: func(string) (Conn, error) { return conn{closed: new(int)}, nil },
			Run: func(ctx context.Context, session *Session) error {
				session.Alive()
				time.Sleep(time.Minute)
				assert.NoError(t, ctx.Err())
				session.Alive() // it was only busy
				time.Sleep(time.Minute)
				assert.NoError(t, ctx.Err())
				spare = true
				<-ctx.Done()
				assert.ErrorIs(t, context.Cause(ctx), errSilent)
				stop()
				return ctx.Err()
			},
		}
		s.Follow(ctx)
		assert.LessOrEqual(t, time.Since(began), 2*time.Minute+spareInterval)
	})
}
