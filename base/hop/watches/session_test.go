// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tiny are limits that everything reaches soon.
var tiny = limits{chunks: 3, bytes: 200, chunk: 60, window: 200, overhead: 4, pending: 100}

// pair is a session without a network.
type pair struct {
	*sender
	*Receiver
	done sync.WaitGroup
	// carried and delivered are what the receiver has counted.
	carried, delivered atomic.Int64
	idle               atomic.Int64
	// stop ends the session as the loss of its connection does.
	stop func()
}

// newPair opens a session. cut is how many bytes of frames arrive before the connection breaks, or -1.
func newPair(t *testing.T, l *limits, cut int) *pair {
	p := &pair{sender: newSender(l)}
	p.Receiver = newReceiver(Config{
		Carried:   func(n int) { p.carried.Add(int64(n)) },
		Delivered: func(n int) { p.delivered.Add(int64(n)) },
		Idle:      func() { p.idle.Add(1) },
	}, l)
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	frames, framesIn := io.Pipe()
	credits, creditsIn := io.Pipe()
	p.done.Go(func() {
		defer framesIn.Close()
		defer p.sender.close()
		_ = p.sender.run(ctx.Done(), func(b []byte) error {
			if cut >= 0 {
				n := min(cut, len(b))
				cut -= n
				if _, err := framesIn.Write(b[:n]); err != nil || n < len(b) {
					return io.ErrClosedPipe
				}
				return nil
			}
			_, err := framesIn.Write(b)
			return err
		})
	})
	p.done.Go(func() {
		defer cancel()
		_ = p.receiveCredits(bufio.NewReader(credits))
	})
	p.done.Go(func() {
		defer creditsIn.Close()
		_ = p.SendCredits(creditsIn)
	})
	p.done.Go(func() {
		_ = p.Receive(frames)
		_ = frames.Close()
		p.Receiver.Close()
	})
	t.Cleanup(func() { cancel(); p.done.Wait() })
	return p
}

// events are what watches of the same objects receive.
func events(random *rand.Rand, n int) [][]byte {
	all := make([][]byte, n)
	for i := range all {
		all[i] = bytes.Repeat([]byte{byte('a' + i%26)}, 1+random.IntN(150))
	}
	return all
}

// TestWatchesReceiveWhatWasWritten has many watches write, flush, read and end at random, with tables that hardly hold anything, and with hashes that
// are all alike.
func TestWatchesReceiveWhatWasWritten(t *testing.T) {
	for seed := range uint64(20) {
		for name, hash := range map[string]func([]byte) uint64{"hash": nil, "one hash": func([]byte) uint64 { return 7 }} {
			t.Run(fmt.Sprintf("%s %d", name, seed), func(t *testing.T) {
				l := tiny
				if seed%2 == 0 {
					l = standard
				}
				p := newPair(t, &l, -1)
				if hash != nil {
					p.hash = hash
				}
				shared := events(rand.New(rand.NewPCG(seed, 0)), 40)
				var all sync.WaitGroup
				for i := range uint64(30) {
					all.Go(func() { p.exchange(t, rand.New(rand.NewPCG(seed, i+1)), fmt.Sprint(i%4), shared) })
				}
				all.Wait()
				assert.Positive(t, p.idle.Load(), "the receiver does not learn that no watch is left")
			})
		}
	}
}

// exchange has a watch send some events, and compares what arrives.
func (p *pair) exchange(t *testing.T, random *rand.Rand, client string, shared [][]byte) {
	lane, body := p.begin(client)
	w := &writer{answer: nil, ctx: t.Context(), begun: true, lane: lane}
	reader := oddReader{body, rand.New(rand.NewPCG(random.Uint64(), 0))}
	var want []byte
	var sending sync.WaitGroup
	sending.Go(func() {
		for range random.IntN(200) {
			event := shared[random.IntN(len(shared))]
			if random.IntN(8) == 0 {
				event = fmt.Appendf(nil, "only %d %d", body.watch, random.Uint64())
			}
			want = append(want, event...)
			n, err := w.Write(event)
			assert.NoError(t, err)
			assert.Len(t, event, n)
			if random.IntN(3) == 0 {
				assert.NoError(t, w.FlushError())
			}
		}
		w.finish()
	})
	got, err := io.ReadAll(reader)
	require.NoError(t, err)
	sending.Wait()
	assert.True(t, bytes.Equal(want, got), "the watch receives other bytes than were written")
	assert.NoError(t, body.Close())
}

// oddReader reads pieces of random sizes.
type oddReader struct {
	io.Reader
	*rand.Rand
}

func (r oddReader) Read(p []byte) (int, error) {
	return r.Reader.Read(p[:1+r.IntN(min(len(p), 300))])
}

// begin adds a watch of a client, and returns its two ends. It waits while too many ends of other watches are pending.
func (p *pair) begin(client string) (*lane, *Body) {
	body := p.Watch(client)
	for {
		if lane := p.add(body.watch); lane != nil {
			return lane, body
		}
		runtime.Gosched()
	}
}

func TestAChunkIsCarriedOnce(t *testing.T) {
	p := newPair(t, &standard, -1)
	event := bytes.Repeat([]byte("event"), 100)
	const n = 100
	for i := range n {
		lane, body := p.begin(fmt.Sprint(i % 7))
		require.NoError(t, lane.write(t.Context(), event))
		lane.end()
		got, err := io.ReadAll(body)
		require.NoError(t, err)
		require.Equal(t, event, got)
		require.NoError(t, body.Close())
	}
	assert.EqualValues(t, len(event), p.carried.Load())
	assert.EqualValues(t, n*len(event), p.delivered.Load())
}

// TestASessionCutAnywhereEndsItsWatches breaks the connection after each byte. Each watch then has the beginning of what was written, in whole chunks.
func TestASessionCutAnywhereEndsItsWatches(t *testing.T) {
	for cut := range 150 {
		l := standard
		p := newPair(t, &l, cut)
		lanes, bodies := [3]*lane{}, [3]*Body{}
		for i := range lanes {
			lanes[i], bodies[i] = p.begin(fmt.Sprint(i % 2)) // nothing was sent that can be cut
		}
		var all sync.WaitGroup
		for i, lane := range lanes {
			body := bodies[i]
			all.Go(func() {
				for event := range 10 {
					if lane.write(t.Context(), fmt.Appendf(nil, "event %d\n", event)) != nil {
						return
					}
				}
				lane.end()
			})
			all.Go(func() {
				got, err := io.ReadAll(body)
				assert.NoError(t, err, "a watch ends as if it had timed out")
				var want []byte
				for event := 0; len(want) < len(got); event++ {
					want = fmt.Appendf(want, "event %d\n", event)
				}
				assert.Equal(t, string(want), string(got), "cut after %d bytes", cut)
				assert.NoError(t, body.Close())
			})
		}
		all.Wait()
		p.stop()
		assert.Nil(t, p.add(1<<40), "the session takes watches after its end")
		<-p.Receiver.Ended()
		assert.Nil(t, p.Watch("a"), "the session takes watches after its end")
	}
}

// TestAWatchWithoutCreditHoldsUpNobody has one of 1,000 clients read nothing.
func TestAWatchWithoutCreditHoldsUpNobody(t *testing.T) {
	p := newPair(t, &standard, -1)
	ctx, cancel := context.WithCancel(t.Context())
	frozen, unread := p.begin("frozen")
	var stuck sync.WaitGroup
	written := 0
	event := func(i int) []byte { return fmt.Appendf(bytes.Repeat([]byte("x"), 2000), "%d\n", i) }
	const events = 200
	stuck.Go(func() {
		for i := 0; frozen.write(ctx, event(i)) == nil; i++ {
			written++
		}
	})
	var all sync.WaitGroup
	for i := range 999 {
		lane, body := p.begin(fmt.Sprint(i / 10))
		all.Go(func() {
			for i := range events {
				assert.NoError(t, lane.write(t.Context(), event(i)))
			}
			lane.end()
		})
		all.Go(func() {
			n, err := io.Copy(io.Discard, struct{ io.Reader }{body})
			assert.NoError(t, err)
			assert.Greater(t, n, int64(events*2000))
			assert.NoError(t, body.Close())
		})
	}
	all.Wait()
	cancel()
	stuck.Wait()
	assert.Positive(t, written)
	assert.LessOrEqual(t, written*len(event(0)), standard.window, "what waits for a client that does not read")
	frozen.end()
	got, err := io.ReadAll(unread)
	require.NoError(t, err)
	assert.Len(t, bytes.SplitAfter(got, []byte("\n")), written+1, "what was written before arrives when the client reads after all")
	require.NoError(t, unread.Close())
}

// TestClosingAgainstTheEnd closes bodies while their watches write and end.
func TestClosingAgainstTheEnd(t *testing.T) {
	p := newPair(t, &tiny, -1)
	var all sync.WaitGroup
	for i := range 300 {
		lane, body := p.begin(fmt.Sprint(i % 5))
		ctx, cancel := context.WithCancel(t.Context())
		all.Go(func() {
			for n := 0; n < 20 && lane.write(ctx, fmt.Appendf(nil, "event %d", n)) == nil; n++ {
			}
			lane.end()
		})
		all.Go(func() {
			_, _ = io.CopyN(io.Discard, body, int64(i)) // it may end before
			assert.NoError(t, body.Close())
			_, err := body.Read(make([]byte, 1))
			assert.ErrorIs(t, err, errClosed)
			cancel() // as the end of the request does
		})
	}
	all.Wait()
	assert.Empty(t, p.lanes)
	assert.Empty(t, p.bodies)
	assert.Empty(t, p.connections)
}

// TestAReplicaThatSendsTooMuchLosesTheSession has the sender ignore the window.
func TestAReplicaThatSendsTooMuchLosesTheSession(t *testing.T) {
	p := newPair(t, &tiny, -1)
	lane, body := p.begin("a")
	_, other := p.begin("b")
	p.sender.mu.Lock()
	lane.credit = 1 << 20
	p.sender.mu.Unlock()
	for lane.write(t.Context(), []byte("more")) == nil {
	}
	got, err := io.ReadAll(other)
	require.NoError(t, err)
	assert.Empty(t, got)
	got, err = io.ReadAll(body)
	require.NoError(t, err)
	assert.LessOrEqual(t, len(got), tiny.window)
}

func TestAnAggregatorThatGivesTooMuchCreditLosesTheSession(t *testing.T) {
	s := newSender(&tiny)
	l := s.add(1)
	require.NoError(t, l.write(t.Context(), []byte("chunk")))
	require.NoError(t, s.grant(1, uint64(tiny.cost([]byte("chunk")))))
	require.ErrorIs(t, s.grant(1, 1), errCredit)
	require.ErrorIs(t, s.grant(1, 1<<63), errCredit)
	require.NoError(t, s.grant(2, 1), "a watch that has ended")
	assert.Nil(t, s.add(1), "a number is taken twice")
}

// TestWhatIsPendingIsLimited has watches that write and end, and an aggregator that reads nothing.
func TestWhatIsPendingIsLimited(t *testing.T) {
	l := standard
	s := newSender(&l)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // no goroutine waits
	for watch := range uint64(100_000) {
		lane := s.add(watch)
		if lane == nil {
			break
		}
		for i := range 10 { // groups that none can join
			_ = lane.write(ctx, []byte{byte('a' + i%2)})
		}
		lane.end()
	}
	assert.Less(t, len(s.pending)*int(unsafe.Sizeof(group{})+unsafe.Sizeof(uint64(0))), 3*l.pending)

	groups, _ := s.take(nil)
	assert.Zero(t, s.size)
	assert.NotNil(t, s.add(1<<60), "there is room again")
	assert.Greater(t, cap(groups), maxIdle/pendingGroup, "the test makes too little")
}

// FuzzReceive has a replica send anything.
func FuzzReceive(f *testing.F) {
	s := newSender(&standard)
	for watch := range uint64(3) {
		l := s.add(1<<32 | watch + 1)
		_ = l.write(f.Context(), []byte("one chunk")) // there is credit
		_ = l.write(f.Context(), fmt.Append(nil, watch))
		l.end()
	}
	groups, next := s.take(nil)
	f.Add(encode(nil, groups, next))
	f.Add([]byte{frameChunk, 1, 'a', frameDeliver, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{frameDeliver, 0, 0, frameEnd, 1, 9})
	f.Fuzz(func(t *testing.T, frames []byte) {
		delivered := 0
		r := newReceiver(Config{Carried: func(int) {}, Delivered: func(n int) { delivered += n }, Idle: func() {}}, &tiny)
		bodies := []*Body{r.Watch("a"), r.Watch("a"), r.Watch("b")}
		require.Error(t, r.Receive(bytes.NewReader(frames)))
		r.Close()
		read := 0
		for _, b := range bodies {
			got, err := io.ReadAll(b)
			require.NoError(t, err)
			require.LessOrEqual(t, len(got), tiny.window)
			read += len(got)
		}
		require.LessOrEqual(t, read, len(frames)*tiny.window)
		require.GreaterOrEqual(t, read, delivered)
	})
}

// FuzzCredits has an aggregator send anything.
func FuzzCredits(f *testing.F) {
	f.Add([]byte{1, 4, 2, 1})
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, credits []byte) {
		s := newSender(&tiny)
		l := s.add(1)
		require.NoError(t, l.write(t.Context(), []byte("chunk")))
		require.Error(t, s.receiveCredits(bytes.NewReader(credits)))
		require.LessOrEqual(t, l.credit, tiny.window)
		require.Positive(t, l.credit)
	})
}

func TestAServerHasSoManySessionsAtMost(t *testing.T) {
	var all Sessions
	for i := range maxSessions {
		require.True(t, all.add(strconv.Itoa(i), nil))
	}
	assert.False(t, all.add("one more", nil))
	all.remove("0")
	assert.True(t, all.add("one more", nil))
}
