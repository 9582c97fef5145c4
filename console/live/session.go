// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"sync"
	"time"
)

// idle is the time without pages after which the follower of a session ends.
const idle = time.Minute

var (
	errFull  = errors.New("too many pages of services are open in this console: try again later")
	errEnded = errors.New("the session has ended")
)

// Room bounds how many followers a console has at once, of all users and of each.
type Room struct {
	max, maxOfUser int

	mu    sync.Mutex
	users map[string]int
	taken int
}

// NewRoom returns room for so many followers.
func NewRoom(all, ofUser int) *Room {
	return &Room{max: all, maxOfUser: ofUser, users: map[string]int{}}
}

func (r *Room) take(user string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken >= r.max || r.users[user] >= r.maxOfUser {
		return false
	}
	r.taken++
	r.users[user]++
	return true
}

func (r *Room) free(user string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken--
	if r.users[user]--; r.users[user] == 0 {
		delete(r.users, user)
	}
}

// Session has a follower for the pages of one session. It begins with a page, and ends when no page has asked for it for a minute, or with
// the session. Nothing stays of it. No other session gets its pictures, so no user sees what another one may read.
type Session struct {
	source Source
	room   *Room
	user   string

	mu       sync.Mutex
	follower *Follower
	pages    int
	timer    *time.Timer
	ended    bool
}

// NewSession returns that of a user, whose credentials the source has.
func NewSession(source Source, room *Room, user string) *Session {
	return &Session{source: source, room: room, user: user}
}

// Next is that of the follower.
func (s *Session) Next(ctx context.Context, known int64) (*Picture, error) {
	f, err := s.enter()
	if err != nil {
		return nil, err
	}
	defer s.leave()
	return f.Next(ctx, known)
}

func (s *Session) enter() (*Follower, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
		return nil, errEnded
	case s.follower == nil && !s.room.take(s.user):
		return nil, errFull
	case s.follower == nil:
		s.follower = New(s.source)
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	s.pages++
	return s.follower, nil
}

func (s *Session) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages--
	if s.ended {
		s.forget()
		return
	}
	if s.pages == 0 {
		s.timer = time.AfterFunc(idle, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.forget()
		})
	}
}

// End forgets the follower when no page uses it any more, and lets none begin.
func (s *Session) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.forget()
}

// forget ends the follower unless a page uses it. The caller holds the lock.
func (s *Session) forget() {
	if s.follower == nil || s.pages > 0 {
		return
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	s.follower = nil
	s.room.free(s.user)
}
