// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package signin

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// maxSessions bounds the memory of all sessions.
	maxSessions = 1024
	// maxOfUser is how many sessions a user has at most. One more replaces the one that was unused for longest.
	maxOfUser = 16
)

var errFull = errors.New("the console has too many sessions: try again later")

// key is the hash of the secret in a cookie.
type key [sha256.Size]byte

func keyOf(secret string) key { return sha256.Sum256([]byte(secret)) }

// newSecret returns one that no client can guess.
func newSecret() string { return rand.Text() + rand.Text() }

// sessions are those of signed-in browsers.
type sessions struct {
	idle, lifetime time.Duration

	mu  sync.Mutex
	all map[key]*session
}

// session is one of them.
type session struct {
	user  string
	pages http.Handler
	// A session ends at ends, and earlier without requests. The timer then forgets it and its token.
	used, ends time.Time
	timer      *time.Timer
}

func newSessions(idle, lifetime time.Duration) *sessions {
	return &sessions{idle: idle, lifetime: lifetime, all: map[key]*session{}}
}

// begin remembers a session of a user, and what it shows.
func (s *sessions) begin(k key, user string, pages http.Handler) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ofUser []key
	for other, session := range s.all {
		if session.user == user {
			ofUser = append(ofUser, other)
		}
	}
	if len(ofUser) >= maxOfUser {
		s.forget(slices.MinFunc(ofUser, func(a, b key) int { return s.all[a].used.Compare(s.all[b].used) }))
	}
	if len(s.all) >= maxSessions {
		return errFull
	}
	now := time.Now()
	s.all[k] = &session{
		user: user, pages: pages, used: now, ends: now.Add(s.lifetime),
		timer: time.AfterFunc(min(s.idle, s.lifetime), func() { s.end(k) }),
	}
	return nil
}

// use returns a session, which then goes on, or nil.
func (s *sessions) use(k key) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.all[k]
	if found == nil {
		return nil
	}
	found.used = time.Now()
	found.timer.Reset(min(s.idle, found.ends.Sub(found.used)))
	return found
}

// end forgets a session and its token.
func (s *sessions) end(k key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(k)
}

// forget is end for a caller that has the lock.
func (s *sessions) forget(k key) {
	if found := s.all[k]; found != nil {
		found.timer.Stop()
		delete(s.all, k)
	}
}
