// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package requestmemory

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/tripod-k8s/tripod/services/aggregator/upstream/connections"
)

// request returns a request with a body of that length and without headers.
func request(length int64) *http.Request { return &http.Request{ContentLength: length} }

// begin has a user begin requests until Begin refuses one. It returns the others.
func begin(m *Budget, name string) []*Reservation {
	for begun := []*Reservation(nil); ; {
		s := m.Begin(request(0), &user.DefaultInfo{Name: name})
		if s == nil {
			return begun
		}
		begun = append(begun, s)
	}
}

func TestAUserHasAsMuchAsIsFree(t *testing.T) {
	const requests = 120
	m := New(requests * requestCost)
	var all []*Reservation
	for i, want := range []int{requests / 2, requests / 4, requests / 8} {
		got := begin(m, fmt.Sprint(i))
		if len(got) != want {
			t.Errorf("user %d has %d requests in flight, want %d", i, len(got), want)
		}
		all = append(all, got...)
	}
	for _, s := range all {
		s.End()
	}
	if m.taken != 0 || len(m.users) != 0 {
		t.Errorf("%d bytes and %d users are left", m.taken, len(m.users))
	}
	if got := begin(m, "0"); len(got) != requests/2 {
		t.Errorf("then a user has %d requests in flight", len(got))
	}
}

func TestServiceAccountsOfANamespaceShare(t *testing.T) {
	m := New(100 * requestCost)
	begin(m, "system:serviceaccount:a:b")
	if got := begin(m, "system:serviceaccount:a:c"); len(got) != 0 {
		t.Errorf("another ServiceAccount has %d requests in flight", len(got))
	}
	if got := begin(m, "system:serviceaccount:b:c"); len(got) == 0 {
		t.Error("a ServiceAccount of another namespace has none")
	}
}

func TestARequestThatHasArrivedBecomesItsSenders(t *testing.T) {
	m := New(8 * requestCost)
	header := http.Header{"A": {"b"}}
	cost := int64(requestCost + 2 + headerCost)
	s := m.Arrive("10.0.0.1", header)
	req := (&http.Request{Header: header, ContentLength: 100}).WithContext(s.In(t.Context()))
	if got := m.Begin(req, &user.DefaultInfo{Name: "a"}); got != s {
		t.Fatal("it has another reservation")
	}
	if m.Begin(req, &user.DefaultInfo{Name: "impersonated"}) != s {
		t.Fatal("another handler gets another reservation")
	}
	if len(m.users) != 1 || m.users["a"].taken != cost+100 {
		t.Errorf("the users are %v", m.users)
	}
	s.End()
	s.End()
	if m.taken != cost+100 {
		t.Errorf("the handlers but one have given back all but %d bytes", m.taken)
	}
	s.End()
	if m.taken != 0 || len(m.users) != 0 {
		t.Errorf("%d bytes and %d users are left", m.taken, len(m.users))
	}
}

func TestARequestThatIsTooMuchForItsSenderStaysWhereItArrived(t *testing.T) {
	m := New(8 * requestCost)
	begin(m, "a")
	s := m.Arrive("10.0.0.1", nil)
	if m.Begin((&http.Request{}).WithContext(s.In(t.Context())), &user.DefaultInfo{Name: "a"}) != nil {
		t.Error("it has begun")
	}
	if m.users["10.0.0.1"].taken != requestCost {
		t.Error("it does not count where it arrived")
	}
	if s.End(); m.users["10.0.0.1"] != nil {
		t.Error("it still counts")
	}
}

func TestAUserHasFewCancelledRequests(t *testing.T) {
	m := New(16 * cancelledCost)
	var all []*Reservation
	for range 100 { // a burst
		all = append(all, m.Begin(request(0), &user.DefaultInfo{Name: "a"}))
	}
	for _, s := range all {
		s.Cancelled()
	}
	if a := m.users["a"].taken; a <= m.limit/2-cancelledCost || a > m.limit/2+cancelledCost {
		t.Errorf("they take %d bytes", a)
	}
	b := m.Begin(request(0), &user.DefaultInfo{Name: "b"})
	if b == nil {
		t.Fatal("somebody else has no request")
	}
	b.End()
	if b.Cancelled(); m.users["b"] != nil || m.taken != m.users["a"].taken {
		t.Error("a request that is done counts")
	}
}

func TestACancelledRequestCountsForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(0)
		s := m.Begin(request(0), &user.DefaultInfo{Name: "a"})
		s.Cancelled()
		s.EndCancelled()
		time.Sleep(cancelledFor - time.Millisecond)
		if m.taken != requestCost+cancelledCost {
			t.Errorf("it takes %d bytes", m.taken)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if m.taken != 0 {
			t.Errorf("%d bytes are left", m.taken)
		}
		s = m.Begin(request(0), &user.DefaultInfo{Name: "a"})
		time.Sleep(cancelledFor)
		if s.EndCancelled(); m.taken != 0 {
			t.Errorf("one that has lasted for a second takes %d bytes", m.taken)
		}
	})
}

func TestBodiesCount(t *testing.T) {
	for length, want := range map[int64]int64{0: requestCost, 100: requestCost + 100, 1 << 30: requestCost + maxBody, -1: requestCost + maxBody} {
		m := New(0)
		if m.Begin(request(length), &user.DefaultInfo{}); m.taken != want {
			t.Errorf("a request with a body of %d takes %d bytes, want %d", length, m.taken, want)
		}
	}
}

func TestAnAnswerThatIsTooMuchIsRefused(t *testing.T) {
	m := New(4 * requestCost)
	s := m.Begin(request(0), &user.DefaultInfo{})
	if s.TakeAnswer(3 * requestCost) {
		t.Error("it is taken")
	}
	s.Add(3 * requestCost)
	if m.taken != 4*requestCost {
		t.Errorf("%d bytes are taken", m.taken)
	}
	s.End()
	if m.taken != 0 {
		t.Errorf("%d bytes are left", m.taken)
	}
}

// client is the ResponseWriter of a client that receives nothing until the test closes receive or sets a deadline.
type client struct {
	http.ResponseWriter
	receive chan struct{}
	once    sync.Once
}

func (c *client) Write(p []byte) (int, error) {
	<-c.receive
	return len(p), nil
}

func (c *client) FlushError() error {
	<-c.receive
	return nil
}

func (c *client) SetWriteDeadline(time.Time) error {
	c.once.Do(func() { close(c.receive) })
	return nil
}

func TestAWriteThatIsBlockedEnds(t *testing.T) {
	for name, test := range map[string]struct {
		memory int64
		write  func(*Writer)
		want   time.Duration
	}{
		"after a minute":                   {0, func(w *Writer) { _, _ = w.Write([]byte("a")) }, maxBlocked},
		"also a flush":                     {0, func(w *Writer) { _ = w.FlushError() }, maxBlocked},
		"sooner if its user has too much":  {2 * requestCost, func(w *Writer) { _, _ = w.Write([]byte("a")) }, blockedAfter},
		"not before it blocks for so long": {0, func(w *Writer) { time.Sleep(time.Hour); _, _ = w.Write([]byte("a")) }, time.Hour + maxBlocked},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := New(test.memory)
				s := m.Begin(request(0), &user.DefaultInfo{})
				w := s.Writer(&client{ResponseWriter: httptest.NewRecorder(), receive: make(chan struct{})})
				began := time.Now()
				test.write(w)
				if took := time.Since(began); took != test.want {
					t.Errorf("it ends after %s, want %s", took, test.want)
				}
				if m.taken != requestCost {
					t.Errorf("%d bytes are taken then", m.taken)
				}
			})
		})
	}
}

func TestUnreceivedBytesCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(0)
		c := &client{ResponseWriter: httptest.NewRecorder(), receive: make(chan struct{})}
		w := m.Begin(request(0), &user.DefaultInfo{}).Writer(c)
		go func() { _, _ = w.Write([]byte("a")) }()
		taken := func() int64 {
			synctest.Wait()
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.taken
		}
		time.Sleep(blockedAfter - time.Nanosecond)
		if got := taken(); got != requestCost {
			t.Errorf("at first %d bytes are taken", got)
		}
		time.Sleep(time.Nanosecond)
		if got := taken(); got != requestCost+connections.Window {
			t.Errorf("then %d bytes are taken", got)
		}
		close(c.receive)
		if got := taken(); got != requestCost {
			t.Errorf("in the end %d bytes are taken", got)
		}
	})
}

// TestALaterWriteThatIsBlockedEndsAsSoon has writes before the one that blocks.
func TestALaterWriteThatIsBlockedEndsAsSoon(t *testing.T) {
	for name, before := range map[string]func(*Writer, *client){
		"after quick writes": func(w *Writer, c *client) {
			for range 10 {
				_, _ = w.Write([]byte("a"))
				time.Sleep(blockedAfter * 3 / 7)
			}
		},
		"after a slow one": func(w *Writer, c *client) {
			c.receive = make(chan struct{})
			time.AfterFunc(maxBlocked/2, func() { close(c.receive) })
			_, _ = w.Write([]byte("a"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := New(0)
				c := &client{ResponseWriter: httptest.NewRecorder(), receive: make(chan struct{})}
				close(c.receive)
				w := m.Begin(request(0), &user.DefaultInfo{}).Writer(c)
				before(w, c)
				c.receive = make(chan struct{})
				began := time.Now()
				_, _ = w.Write([]byte("a"))
				if took := time.Since(began); took != maxBlocked {
					t.Errorf("it ends after %s", took)
				}
			})
		})
	}
}
