// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// source is the body of a request. It records whether it was closed.
type source struct {
	io.Reader
	closed bool
}

func (s *source) Close() error {
	s.closed = true
	return nil
}

func newBody(content io.Reader, length int64) (*Body, *source) {
	s := &source{Reader: content}
	return New(&http.Request{Body: s, ContentLength: length}), s
}

func TestBodyIsSentAgain(t *testing.T) {
	short, long := strings.Repeat("s", 100), strings.Repeat("l", Limit+1)
	tests := []struct {
		name    string
		content string
		// unknown leaves the length of the body out.
		unknown bool
		// read is how many bytes the first attempt reads; -1 is all.
		read int
		want bool
	}{
		{name: "none of it was read", content: short, read: 0, want: true},
		{name: "a part was read", content: short, read: 60, want: true},
		{name: "all of it was read", content: short, read: -1, want: true},
		{name: "its length is not known", content: short, unknown: true, read: -1, want: true},
		{name: "as long as can be", content: long[1:], read: -1, want: true},
		{name: "too long, but not read", content: long, read: 0, want: true},
		{name: "too long", content: long, read: 1, want: false},
		{name: "too long, and that is not known", content: long, unknown: true, read: -1, want: false},
		{name: "too long, and that is not known yet", content: long, unknown: true, read: 100, want: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			length := int64(len(test.content))
			if test.unknown {
				length = -1
			}
			body, _ := newBody(strings.NewReader(test.content), length)
			first := body.Next()
			if test.read < 0 {
				if got, err := io.ReadAll(first); err != nil || string(got) != test.content {
					t.Fatalf("the first time it is %d bytes, error %v", len(got), err)
				}
				if !body.Complete() {
					t.Error("it is not complete")
				}
			} else if _, err := io.ReadFull(first, make([]byte, test.read)); err != nil {
				t.Fatal(err)
			}
			require.Equal(t, test.want, body.Replayable(), "replayable")
			if !test.want {
				return
			}
			second := body.Next()
			if _, err := first.Read(make([]byte, 1)); err == nil {
				t.Error("the first attempt still reads")
			}
			assert.NoError(t, first.Close())
			if got, err := io.ReadAll(second); err != nil || string(got) != test.content {
				t.Errorf("the second time it is %d bytes, error %v", len(got), err)
			}
		})
	}
}

func TestASourceIsClosedWhenItIsOver(t *testing.T) {
	t.Run("an attempt that failed leaves it open", func(t *testing.T) {
		body, source := newBody(strings.NewReader("content"), 7)
		_ = body.Next().Close()
		assert.False(t, source.closed, "it is closed")
		body.Close()
		assert.True(t, source.closed, "it is not closed")
	})
	t.Run("one that has an answer goes on reading", func(t *testing.T) {
		body, source := newBody(strings.NewReader("content"), 7)
		last := body.Next()
		body.Settle()
		if got, err := io.ReadAll(last); err != nil || string(got) != "content" || source.closed {
			t.Errorf("content %q, error %v, closed %v", got, err, source.closed)
		}
		_ = last.Close()
		assert.True(t, source.closed, "it is not closed")
	})
	t.Run("one that is over already", func(t *testing.T) {
		body, source := newBody(strings.NewReader("content"), 7)
		_ = body.Next().Close()
		body.Settle()
		if !source.closed || body.Replayable() {
			t.Error("it is not closed, or sent again")
		}
	})
}

// slowClient sends nothing until the test lets it end.
type slowClient struct{ waiting, end chan struct{} }

func (c slowClient) Read([]byte) (int, error) {
	close(c.waiting)
	<-c.end
	return 0, io.EOF
}

func TestNobodyWaitsForASlowClient(t *testing.T) {
	client := slowClient{make(chan struct{}), make(chan struct{})}
	body, source := newBody(client, -1)
	attempt := body.Next()
	read := make(chan error)
	go func() {
		_, err := attempt.Read(make([]byte, 10))
		read <- err
	}()
	<-client.waiting
	if body.Replayable() || body.Complete() || body.Err() != nil {
		t.Error("a body that is being read is sent again, complete, or broken")
	}
	body.Settle()
	_ = attempt.Close()
	assert.True(t, source.closed, "it is not closed")
	close(client.end)
	assert.ErrorIs(t, <-read, io.EOF)
}

func TestAClientThatBreaksOffIsToBlame(t *testing.T) {
	body, _ := newBody(io.MultiReader(strings.NewReader("con"), iotest.ErrReader(io.ErrUnexpectedEOF)), 7)
	if _, err := io.ReadAll(body.Next()); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	if !errors.Is(body.Err(), io.ErrUnexpectedEOF) || body.Replayable() {
		t.Errorf("error %v, replayable %v", body.Err(), body.Replayable())
	}
}

func TestRequestsWithoutABody(t *testing.T) {
	for _, req := range []*http.Request{{}, {Body: http.NoBody}} {
		body := New(req)
		if body.Next() != nil || !body.Replayable() || !body.Complete() || body.Err() != nil {
			t.Errorf("%+v", body)
		}
		body.Settle()
		body.Close()
	}
}
