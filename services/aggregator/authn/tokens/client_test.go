// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package tokens

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/warning"

	"github.com/tripod-k8s/tripod/base/hop/follow"
	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

const (
	token = "secret"
	// unavailable and notGood are what whoIs returns in place of a name.
	unavailable = "UNAVAILABLE"
	notGood     = "NOT GOOD"
)

// whoIs returns the name of the user whose token it is.
func whoIs(ctx context.Context, c *Client, token string) string {
	response, ok, err := c.AuthenticateToken(ctx, token)
	var outage *UnavailableError
	switch {
	case errors.As(err, &outage):
		return unavailable
	case !ok || err != nil:
		return notGood
	}
	return response.User.GetName()
}

func expect(t *testing.T, c *Client, want string) {
	t.Helper()
	assert.Equal(t, want, whoIs(t.Context(), c, token), "the token")
}

type recorder []string

func (r *recorder) AddWarning(agent, text string) { *r = append(*r, agent+": "+text) }

// seen is what authentication leaves for a request.
type seen struct {
	User        user.Info
	Audiences   authenticator.Audiences
	OK          bool
	Err         string
	Annotations map[string]string
	Warnings    recorder
}

func authenticate(t *testing.T, c *Client) seen {
	t.Helper()
	var got seen
	ctx := audit.WithAuditContext(warning.WithWarningRecorder(t.Context(), &got.Warnings))
	require.NoError(t, audit.AuditContextFrom(ctx).Init(audit.RequestAuditConfig{Level: "Metadata"}, nil))
	response, ok, err := c.AuthenticateToken(ctx, token)
	if got.OK = ok; ok {
		got.User, got.Audiences = response.User, response.Audiences
	}
	if err != nil {
		got.Err = err.Error()
	}
	got.Annotations = audit.AuditContextFrom(ctx).GetEventAnnotations()
	return got
}

func TestAnswersReachEveryRequestWithAllThatBelongsToThem(t *testing.T) {
	annotations := map[string]string{"authentication.k8s.io/legacy-token": "a/b"}
	warnings := []*identityv1.Warning{{Text: "old token"}, {Agent: "agent", Text: "second"}}
	tests := []struct {
		name      string
		response  *identityv1.AuthenticateResponse
		want      seen
		questions int
	}{
		{
			name: "a good token",
			response: &identityv1.AuthenticateResponse{
				User: &identityv1.User{Name: "jane", Uid: "42", Groups: []string{"a", "b"},
					Extra: []*identityv1.Extra{{Key: "Acme/Id", Values: []string{"", "x"}}}},
				Audiences: []string{"here"}, AuditAnnotations: annotations, Warnings: warnings, FreshFor: durationpb.New(time.Second),
			},
			want: seen{
				OK:        true,
				User:      &user.DefaultInfo{Name: "jane", UID: "42", Groups: []string{"a", "b"}, Extra: map[string][]string{"Acme/Id": {"", "x"}}},
				Audiences: authenticator.Audiences{"here"}, Annotations: annotations, Warnings: recorder{": old token", "agent: second"},
			},
			questions: 1,
		},
		{
			name:      "a token that is not good",
			response:  &identityv1.AuthenticateResponse{Error: "expired", AuditAnnotations: annotations, Warnings: warnings, FreshFor: durationpb.New(time.Second)},
			want:      seen{Err: "expired", Annotations: annotations, Warnings: recorder{": old token", "agent: second"}},
			questions: 2,
		},
		{
			name:      "an answer that is not to be used again",
			response:  &identityv1.AuthenticateResponse{User: &identityv1.User{Name: "jane"}},
			want:      seen{OK: true, User: &user.DefaultInfo{Name: "jane"}},
			questions: 2,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				core := newTestCore("run")
				core.answer(token, test.response)
				c := newTestClient(t, time.Minute, core)
				for range 2 {
					assert.Empty(t, cmp.Diff(test.want, authenticate(t, c)))
				}
				if got := core.questions(token); got != test.questions {
					t.Errorf("core was asked %d times, want %d", got, test.questions)
				}
			})
		})
	}
}

func TestCoreIsNotAskedAboutWhatCannotBeAToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core := newTestCore("run")
		c := newTestClient(t, time.Minute, core)
		for _, token := range []string{"", "no UTF-8: \xff"} {
			core.answer(token, is("jane", "1"))
			assert.Equal(t, notGood, whoIs(t.Context(), c, token), "%q", token)
			assert.Equal(t, 0, core.questions(token), "core was asked about %q", token)
		}
	})
}

func TestAudiencesAreDifferentQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core := newTestCore("run")
		core.answer(token, is("anyone", "1"))
		core.answer(token+" for a", is("for a", "1"))
		core.answer(token+" for a for b", is("for a and b", "1"))
		c := newTestClient(t, time.Minute, core)
		for range 2 {
			for want, audiences := range map[string]authenticator.Audiences{"for a": {"a"}, "for a and b": {"a", "b"}} {
				assert.Equal(t, want, whoIs(authenticator.WithAudiences(t.Context(), audiences), c, token), "%v: the token", audiences)
			}
			expect(t, c, "anyone")
		}
	})
}

func TestAnAnswerIsUsedUntilItHasServedItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core := newTestCore("run")
		core.on(token, func() (*identityv1.AuthenticateResponse, error) {
			time.Sleep(time.Second) // it counts from the question
			return is("jane", "1"), nil
		})
		c := newTestClient(t, time.Minute, core)
		for range 3 {
			expect(t, c, "jane")
			time.Sleep(9*time.Second - time.Nanosecond)
			expect(t, c, "jane")
			time.Sleep(time.Nanosecond)
		}
		if got := core.questions(token); got != 3 {
			t.Errorf("core was asked %d times, want 3", got)
		}
	})
}

func TestATokenIsNotGoodAfterItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core := newTestCore("run")
		ending := is("jane", "1")
		ending.ValidFor = durationpb.New(5 * time.Second)
		core.answer(token, ending)
		c := newTestClient(t, time.Minute, core)
		expect(t, c, "jane")
		core.answer(token, &identityv1.AuthenticateResponse{Error: "expired"})
		time.Sleep(5*time.Second - time.Nanosecond)
		expect(t, c, "jane")
		time.Sleep(time.Nanosecond)
		expect(t, c, notGood)
	})
}

func TestATokenThatEndsWhileItIsCheckedIsGoodForThatRequestOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core := newTestCore("run")
		core.on(token, func() (*identityv1.AuthenticateResponse, error) {
			time.Sleep(time.Second)
			ending := is("jane", "1")
			ending.ValidFor = durationpb.New(time.Second)
			return ending, nil
		})
		c := newTestClient(t, time.Minute, core)
		expect(t, c, "jane")
		core.answer(token, &identityv1.AuthenticateResponse{})
		expect(t, c, notGood)
	})
}

func TestAnInvalidationEndsTheAnswersThatDependOnIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core := newTestCore("run")
		core.answer(token, is("jane", "1"))
		core.answer("other", is("joe", "2"))
		c := newTestClient(t, time.Minute, core)
		expect(t, c, "jane")
		whoIs(t.Context(), c, "other")

		core.answer(token, &identityv1.AuthenticateResponse{})
		expect(t, c, "jane")
		core.invalidate("1")
		expect(t, c, notGood)
		if got := whoIs(t.Context(), c, "other"); got != "joe" || core.questions("other") != 1 {
			t.Errorf("the other token is of %q, core was asked %d times", got, core.questions("other"))
		}
	})
}

// ask asks in the background. The answer is sent when it is there.
func ask(ctx context.Context, c *Client) <-chan string {
	answers := make(chan string, 1)
	go func() { answers <- whoIs(ctx, c, token) }()
	synctest.Wait()
	return answers
}

func TestAnAnswerFromBeforeAnInvalidationIsForRequestsFromBeforeItOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core := newTestCore("run")
		proceed := make(chan struct{})
		core.on(token, func() (*identityv1.AuthenticateResponse, error) {
			<-proceed
			return is("jane", "1"), nil
		})
		c := newTestClient(t, time.Minute, core)
		before := ask(t.Context(), c)

		core.answer(token, &identityv1.AuthenticateResponse{})
		core.invalidate("1")
		after := ask(t.Context(), c)
		close(proceed)
		assert.Equal(t, "jane", <-before, "before the invalidation the token")
		assert.Equal(t, notGood, <-after, "after the invalidation the token")
		expect(t, c, notGood)
	})
}

func TestAnAnswerThatKnowsOfAnInvalidationSurvivesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core := newTestCore("run")
		early := is("jane", "1")
		early.Run, early.Sequence = "run", 1
		core.answer(token, early)
		c := newTestClient(t, time.Minute, core)
		expect(t, c, "jane")
		core.invalidate("1")
		expect(t, c, "jane")
		if got := core.questions(token); got != 1 {
			t.Errorf("core was asked %d times", got)
		}
	})
}

func TestIdenticalQuestionsAreAskedOnce(t *testing.T) {
	tests := []struct {
		name     string
		response *identityv1.AuthenticateResponse
		want     string
		// questions are more than one where what was asked before a request began does not do for it.
		questions int
	}{
		{"good", is("jane", "1"), "jane", 1},
		{"not good", &identityv1.AuthenticateResponse{}, notGood, 2},
		{"good for one use", &identityv1.AuthenticateResponse{User: &identityv1.User{Name: "jane"}}, "jane", 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				core := newTestCore("run")
				core.on(token, func() (*identityv1.AuthenticateResponse, error) {
					time.Sleep(time.Second)
					return test.response, nil
				})
				c := newTestClient(t, time.Minute, core)
				ctx, cancel := context.WithCancel(t.Context())
				impatient := ask(ctx, c)
				var others []<-chan string
				for range 20 {
					others = append(others, ask(t.Context(), c))
				}
				cancel()
				assert.Equal(t, unavailable, <-impatient, "who went away")
				for _, other := range others {
					assert.Equal(t, test.want, <-other, "who waits")
				}
				if got := core.questions(token); got != test.questions {
					t.Errorf("core was asked %d times, want %d", got, test.questions)
				}
			})
		})
	}
}

func TestATokenThatBecomesGoodIsGoodForTheNextRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core := newTestCore("run")
		proceed := make(chan struct{})
		core.on(token, func() (*identityv1.AuthenticateResponse, error) {
			<-proceed
			return &identityv1.AuthenticateResponse{}, nil
		})
		c := newTestClient(t, time.Minute, core)
		before := ask(t.Context(), c)
		core.answer(token, is("jane", "1"))
		after := ask(t.Context(), c)
		close(proceed)
		assert.Equal(t, notGood, <-before, "before it was good the token")
		assert.Equal(t, "jane", <-after, "afterwards the token")
	})
}

func TestAnswersAreUsedForThePeriodOfGrace(t *testing.T) {
	const grace = 30 * time.Second
	synctest.Test(t, func(t *testing.T) {
		core := newTestCore("run")
		core.answer(token, is("jane", "1"))
		ending := is("joe", "1")
		ending.ValidFor = durationpb.New(15 * time.Second)
		core.answer("ending", ending)
		c := newTestClient(t, grace, core)
		expect(t, c, "jane")
		whoIs(t.Context(), c, "ending")

		core.stop()
		for after, want := range map[time.Duration][]string{0: {"jane", "joe"}, 14 * time.Second: {"jane", "joe"}} {
			time.Sleep(after)
			if got := []string{whoIs(t.Context(), c, token), whoIs(t.Context(), c, "ending")}; !cmp.Equal(got, want) {
				t.Errorf("the tokens are of %q, want %q", got, want)
			}
		}
		time.Sleep(time.Second)
		assert.Equal(t, unavailable, whoIs(t.Context(), c, "ending"), "a token after its end")
		assert.Equal(t, unavailable, whoIs(t.Context(), c, "unknown"), "an unknown token")
		time.Sleep(15*time.Second - time.Nanosecond)
		expect(t, c, "jane")
		time.Sleep(time.Nanosecond)
		expect(t, c, unavailable)
	})
}

func TestCoresLastAnswerCountsInGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core := newTestCore("run")
		core.answer(token, is("jane", "1"))
		c := newTestClient(t, time.Minute, core)
		expect(t, c, "jane")
		time.Sleep(10 * time.Second)
		core.answer(token, &identityv1.AuthenticateResponse{})
		expect(t, c, notGood)
		core.stop()
		expect(t, c, unavailable)
	})
}

func TestWithoutGraceNothingIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core := newTestCore("run")
		core.answer(token, is("jane", "1"))
		c := newTestClient(t, 0, core)
		expect(t, c, "jane")
		core.stop()
		expect(t, c, unavailable)
	})
}

func TestAnotherStreamBeginsWithAnEmptyCache(t *testing.T) {
	for name, run := range map[string]string{"of a run that was not followed": "second", "of the same run": "first"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				core := newTestCore("first")
				core.answer(token, is("jane", "1"))
				c := newTestClient(t, time.Minute, core)
				expect(t, c, "jane")
				core.stop()
				core.answer(token, &identityv1.AuthenticateResponse{})
				expect(t, c, "jane")
				core.start(run)
				time.Sleep(time.Second)
				expect(t, c, notGood)
			})
		})
	}
}

func TestASilentReplicaIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core := newTestCore("run")
		core.answer(token, is("jane", "1"))
		config := Config{Addresses: at([]string{"replica"}...), Grace: 30 * time.Second, Dial: func(string) (follow.Conn, error) {
			conn := core.dial()
			conn.watch = func(ctx context.Context) (receiver, error) {
				messages := 0
				return func() (*identityv1.WatchResponse, error) {
					if messages++; messages <= 2 {
						return &identityv1.WatchResponse{Run: "run"}, nil
					}
					<-ctx.Done()
					return nil, ctx.Err()
				}, nil
			}
			return conn, nil
		}}
		c := New(config)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go c.Run(ctx)
		synctest.Wait()
		expect(t, c, "jane")
		time.Sleep(3*time.Second + time.Millisecond)
		expect(t, c, "jane")
		if got := core.questions(token); got != 1 {
			t.Errorf("core was asked %d times, and is lost", got)
		}
		time.Sleep(time.Second)
		expect(t, c, "jane")
		if got := core.questions(token); got != 2 {
			t.Errorf("core was asked %d times, want once for each time that it was followed", got)
		}
	})
}

// TestTheLastReplicaIsFollowedHoweverSilent has core send nothing for longer than answers are used in grace, and then go on.
func TestTheLastReplicaIsFollowedHoweverSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core := newTestCore("run")
		core.answer(token, is("jane", "1"))
		messages := make(chan *identityv1.WatchResponse, 2)
		follows := 0
		config := Config{Addresses: at([]string{"replica"}...), Grace: 30 * time.Second, Spare: func(string) bool { return false }}
		config.Dial = func(string) (follow.Conn, error) {
			follows++
			conn := core.dial()
			conn.watch = func(ctx context.Context) (receiver, error) {
				return func() (*identityv1.WatchResponse, error) {
					select {
					case message := <-messages:
						return message, nil
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				}, nil
			}
			return conn, nil
		}
		c := New(config)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go c.Run(ctx)
		messages <- &identityv1.WatchResponse{Run: "run"}
		synctest.Wait()
		expect(t, c, "jane")
		time.Sleep(maxSilence + 29*time.Second)
		expect(t, c, "jane")
		assert.Equal(t, 1, core.questions(token), "the answer is used in grace")
		time.Sleep(2 * time.Second)
		expect(t, c, "jane")
		assert.Equal(t, 2, core.questions(token), "grace is over: a revocation may wait to be read")
		messages <- &identityv1.WatchResponse{Run: "run"}
		synctest.Wait()
		expect(t, c, "jane")
		assert.Equal(t, 2, core.questions(token), "core has reported that nothing was revoked")
		assert.Equal(t, 1, follows, "the stream goes on")
	})
}

func TestTheNextReplicaIsFollowedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		replicas := []*testCore{newTestCore("a"), newTestCore("b"), newTestCore("c")}
		for _, replica := range replicas {
			replica.answer(token, is(replica.run, "1"))
		}
		c := newTestClient(t, time.Minute, replicas...)
		time.Sleep(2 * time.Minute)
		pause := 100 * time.Millisecond
		var names []string
		for range replicas {
			name := whoIs(t.Context(), c, token)
			names = append(names, name)
			for _, replica := range replicas {
				if replica.run == name {
					replica.stop()
				}
			}
			time.Sleep(pause)
			pause *= 2
		}
		if names[0] == names[1] || names[1] == names[2] || names[0] == names[2] {
			t.Errorf("the answers are of %q, want those of three replicas", names)
		}
	})
}

func TestAQuestionIsAskedAgainWhenItsReplicaIsLost(t *testing.T) {
	lose := map[string]func(lost *testCore) error{
		"the stream ends": func(lost *testCore) error {
			lost.stop()
			time.Sleep(time.Minute)
			return status.Error(codes.Unavailable, "nobody waits for this")
		},
		"no answer, and then that": func(lost *testCore) error { go lost.stop(); return status.Error(codes.Unavailable, "stopping") },
		"no answer once":           func(*testCore) error { return status.Error(codes.Unavailable, "overloaded") },
	}
	for name, lose := range lose {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				replicas := []*testCore{newTestCore("a"), newTestCore("b")}
				lost := make(chan struct{}, 1)
				lost <- struct{}{}
				for _, replica := range replicas {
					replica.on(token, func() (*identityv1.AuthenticateResponse, error) {
						select {
						case <-lost:
							return nil, lose(replica)
						default:
							return is("jane", "1"), nil
						}
					})
				}
				c := newTestClient(t, time.Minute, replicas...)
				time.Sleep(time.Minute)
				expect(t, c, "jane")
				time.Sleep(time.Minute) // for the lost answer
			})
		})
	}
}

func TestWhatCoreDoesNotAnswerIsUnavailable(t *testing.T) {
	for name, err := range map[string]error{
		"unavailable": status.Error(codes.Unavailable, "not synced"),
		"overloaded":  status.Error(codes.ResourceExhausted, "too many questions"),
		"broken":      status.Error(codes.Internal, "broken"),
		"refused":     status.Error(codes.PermissionDenied, "not an aggregator"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				core := newTestCore("run")
				core.on(token, func() (*identityv1.AuthenticateResponse, error) { return nil, err })
				c := newTestClient(t, time.Minute, core)
				expect(t, c, unavailable)
				assert.NoError(t, c.Check(nil))
			})
		})
	}
}

func TestAnswersOfAnotherRunAreNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core := newTestCore("old")
		other := is("mallory", "1")
		other.Run, other.Sequence = "new", 100
		core.answer(token, other)
		c := newTestClient(t, time.Minute, core)
		expect(t, c, unavailable)
		core.start("new") // which it was all the time, behind the address
		time.Sleep(time.Second)
		expect(t, c, "mallory")
	})
}

func TestNobodyWaitsLongForAReplica(t *testing.T) {
	silent := func(string) (follow.Conn, error) {
		conn := newTestCore("run").dial()
		conn.watch = func(ctx context.Context) (receiver, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return conn, nil
	}
	tests := []struct {
		name string
		dial func(string) (follow.Conn, error)
		// last is true if no other replica is better.
		last bool
		// wait is how long an unknown token waits for its answer.
		wait time.Duration
	}{
		{"addresses cannot be dialled", func(string) (follow.Conn, error) { return nil, errors.New("bad address") }, false, 0},
		{"connections are refused", func(string) (follow.Conn, error) {
			core := newTestCore("run")
			core.down = true
			return core.dial(), nil
		}, false, 0},
		{"nothing comes back, and others may be better", silent, false, 2 * maxSilence},
		{"nothing comes back, and no other is better", silent, true, questionTimeout},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				spare := func(string) bool { return !test.last }
				c := New(Config{Addresses: at([]string{"a", "b"}...), Dial: test.dial, Spare: spare})
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				go c.Run(ctx)
				synctest.Wait()
				started := time.Now()
				expect(t, c, unavailable)
				assert.Equal(t, test.wait, time.Since(started), "it took another time")
				if c.Check(nil) == nil {
					t.Error("ready, and no replica was ever followed")
				}
			})
		})
	}
}

func TestAStreamThatLeavesSomethingOutIsNotFollowed(t *testing.T) {
	news := func(run string, upTo uint64, sequences ...uint64) *identityv1.WatchResponse {
		message := &identityv1.WatchResponse{Run: run, Sequence: upTo}
		for _, sequence := range sequences {
			message.Invalidations = append(message.Invalidations, &identityv1.Invalidation{Sequence: sequence, Dependency: serviceAccount("9")})
		}
		return message
	}
	for name, message := range map[string]*identityv1.WatchResponse{
		"an invalidation is missing":              news("run", 2, 2),
		"one is missing between others":           news("run", 3, 1, 3),
		"the last one is missing":                 news("run", 2, 1),
		"a sign of life knows more":               news("run", 1),
		"another run":                             news("other", 0),
		"the same invalidation comes twice":       news("run", 1, 1, 1),
		"an invalidation of nothing in the world": {Run: "run", Sequence: 1, Invalidations: []*identityv1.Invalidation{{Sequence: 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				core := newTestCore("run")
				core.answer(token, is("jane", "1"))
				c := newTestClient(t, time.Minute, core)
				expect(t, c, "jane")
				core.send(message)
				time.Sleep(500 * time.Millisecond)
				expect(t, c, "jane")
				if got := core.questions(token); got != 2 {
					t.Errorf("core was asked %d times, want 2: by two streams", got)
				}
			})
		})
	}
}

func TestTheClientStopsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core := newTestCore("run")
		c := New(Config{Addresses: at([]string{"a"}...), Dial: func(string) (follow.Conn, error) { return core.dial(), nil }})
		ctx, stop := context.WithCancel(t.Context())
		stopped := make(chan struct{})
		go func() { c.Run(ctx); close(stopped) }()
		synctest.Wait()
		stop()
		<-stopped
		expect(t, c, unavailable)
	})
}

func ExampleUnavailableError() {
	fmt.Println(&UnavailableError{errors.New("none was found yet")})
	// Output: core cannot be asked about the token: none was found yet
}
