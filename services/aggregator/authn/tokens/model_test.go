// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package tokens

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var (
	modelSeed = flag.Uint64("model-seed", 1, "first seed of TestModel")
	modelRuns = flag.Int("model-runs", 12, "number of seeds of TestModel")
)

const modelGrace = 5 * time.Second

// TestModel lets a client and its cache live in the simulation, and checks every answer: it must be one that a replica
// gave that was followed, or would have given, between the last news from it before the request began and the end
// of the request. No other answer is stale in a lesser degree: there is no way to know better. Grace is the only exception.
func TestModel(t *testing.T) {
	var total observed
	for i := range *modelRuns {
		seed := *modelSeed + uint64(i)
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &model{T: t, simulation: newSimulation(seed, 1+int(seed%3))}
				m.live(2*time.Minute, 6)
				total.add(m.observed)
				t.Logf("%+v", m.observed)
			})
		})
	}
	// Else the test would not show anything.
	for what, times := range map[string]int{
		"answers of the cache": total.Requests - total.Questions, "streams": total.Streams, "answers in grace": total.Grace,
		"answers that a change overtook": total.Late, "refusals": total.Bad, "outages": total.Unavailable,
	} {
		if times < *modelRuns {
			t.Errorf("there were only %d %s", times, what)
		}
	}
}

// observed counts what happened.
type observed struct {
	Requests, Questions, Good, Bad, Unavailable, Grace, Late, Streams int
}

func (o *observed) add(other observed) {
	o.Requests += other.Requests
	o.Questions += other.Questions
	o.Good += other.Good
	o.Bad += other.Bad
	o.Unavailable += other.Unavailable
	o.Grace += other.Grace
	o.Late += other.Late
	o.Streams += other.Streams
}

type model struct {
	*testing.T
	*simulation
	observed observed
}

// live sends requests from so many senders, and after that time checks that all is well when nothing bad happens.
func (m *model) live(duration time.Duration, senders int) {
	var addresses []string
	for _, r := range m.replicas {
		addresses = append(addresses, r.address)
	}
	config := Config{Grace: modelGrace, Addresses: at(addresses...), Dial: m.dial}
	c := New(config)
	ctx, stop := context.WithCancel(m.Context())
	m.start(ctx)
	m.background.Go(func() { c.Run(ctx) })

	var senderGroup sync.WaitGroup
	for range senders {
		senderGroup.Go(func() {
			for time.Since(m.began) < duration && !m.Failed() {
				m.request(ctx, c)
				m.mu.Lock()
				pause := m.upTo(200 * time.Millisecond)
				m.mu.Unlock()
				time.Sleep(pause)
			}
		})
	}
	senderGroup.Wait()
	if !m.Failed() {
		m.calmDown()
		time.Sleep(20 * time.Second)
		m.expectTruth(ctx, c)
	}
	stop()
	m.background.Wait()
	m.observed.Questions, m.observed.Late, m.observed.Streams = m.asked, m.late, len(m.watched)
}

// request authenticates a token and checks the answer.
func (m *model) request(ctx context.Context, c *Client) {
	m.mu.Lock()
	token := m.token()
	if m.chance(0.1) {
		// In a hurry.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, m.upTo(300*time.Millisecond))
		defer cancel()
	}
	m.mu.Unlock()
	began := time.Now()
	response, ok, err := c.AuthenticateToken(ctx, token.name)
	ended := time.Now()

	m.mu.Lock()
	defer m.mu.Unlock()
	m.observed.Requests++
	var outage *UnavailableError
	switch {
	case errors.As(err, &outage):
		m.observed.Unavailable++
	case ok:
		m.observed.Good++
		name := response.User.GetName()
		if !token.ends.IsZero() && !began.Before(token.ends) {
			m.Errorf("%v after its end a token is of %q", began.Sub(token.ends), name)
		}
		m.checkGood(token, name, began, ended)
	default:
		m.observed.Bad++
		m.checkBad(token, began, ended)
	}
}

// checkGood checks that a followed replica could give that answer.
func (m *model) checkGood(token simToken, name string, began, ended time.Time) {
	name, silent, _ := strings.Cut(name, "/")
	for _, stream := range m.watched {
		from, followed := stream.newsBefore(began, ended)
		if !followed && !m.inGrace(stream, began) {
			continue
		}
		fresh := began.Add(-silentFresh)
		if !stream.lost.IsZero() && !stream.lost.After(ended) {
			fresh = stream.received[0].value.sent
		}
		revealed := during(stream.run.history, from, ended, func(s simState) bool { return s.user(token) == name })
		if revealed && token.silent {
			version, _ := strconv.Atoi(silent)
			revealed = during(m.silent, fresh, ended, func(v int) bool { return v == version })
		}
		if revealed {
			if !followed {
				m.observed.Grace++
			}
			return
		}
	}
	m.Errorf("stale: %v after the start a request that took %v gets %q\n%s", began.Sub(m.began), ended.Sub(began), name, m.describe(began, ended))
}

// checkBad checks that a followed replica gave that answer, and not before the request.
func (m *model) checkBad(token simToken, began, ended time.Time) {
	if !token.ends.IsZero() && !ended.Before(token.ends) {
		return
	}
	for _, stream := range m.watched {
		_, followed := stream.newsBefore(began, ended)
		if followed && during(stream.run.history, began, ended, func(s simState) bool { return s.user(token) == "" }) {
			return
		}
	}
	m.Errorf("stale: %v after the start a request that took %v is refused with %s\n%s", began.Sub(m.began), ended.Sub(began), token.name, m.describe(began, ended))
}

// newsBefore returns when the last message was sent that the client had from the stream when a request began, and
// whether the stream was followed during the request. What happens at one time happens in any order.
func (s *simStream) newsBefore(began, ended time.Time) (time.Time, bool) {
	news := s.received[0].value.sent
	for _, message := range s.received {
		if !message.at.Before(began) {
			break
		}
		news = message.value.sent
	}
	return news, !s.received[0].at.After(ended) && (s.lost.IsZero() || !s.lost.Before(began))
}

// inGrace reports whether answers from the stream may be used although it is not followed any more.
func (m *model) inGrace(stream *simStream, now time.Time) bool {
	for i, next := range m.watched {
		if next == stream {
			replaced := i+1 < len(m.watched) && m.watched[i+1].received[0].at.Before(now)
			return !replaced && !stream.lost.IsZero() && stream.lost.Before(now) && now.Before(stream.lost.Add(modelGrace))
		}
	}
	return false
}

// expectTruth checks that every token is what it is in the world, now that all had the time to know.
func (m *model) expectTruth(ctx context.Context, c *Client) {
	for _, token := range m.tokens {
		response, ok, err := c.AuthenticateToken(ctx, token.name)
		m.mu.Lock()
		want, name := m.truth.user(token), ""
		m.mu.Unlock()
		if ok {
			name, _, _ = strings.Cut(response.User.GetName(), "/")
		}
		if name != want {
			m.Errorf("in the end token %s is of %q (%v), want %q", token.name, name, err, want)
		}
	}
}

// describe lists the streams around a request.
func (m *model) describe(began, ended time.Time) string {
	var b strings.Builder
	for i, stream := range m.watched {
		from, followed := stream.newsBefore(began, ended)
		if !followed && i < len(m.watched)-1 {
			continue
		}
		fmt.Fprintf(&b, "run %s, followed from %v", stream.run.name, stream.received[0].at.Sub(m.began))
		if !stream.lost.IsZero() {
			fmt.Fprintf(&b, " to %v", stream.lost.Sub(m.began))
		}
		fmt.Fprintf(&b, ", last news of %v:\n", from.Sub(m.began))
		during(stream.run.history, from.Add(-time.Second), ended, func(s simState) bool { fmt.Fprintf(&b, "  %v\n", s); return false })
	}
	return b.String()
}
