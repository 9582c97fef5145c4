// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package signin

import (
	"crypto/rand"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/tripod-k8s/tripod/console/access"
	"github.com/tripod-k8s/tripod/console/pages"
)

const (
	// maxSessions bounds the memory of all sessions. One more replaces the longest-unused one of the user who has most.
	maxSessions = 1024
	// maxOfUser is how many sessions a user has at most. One more replaces the longest-unused one.
	maxOfUser = 16
	// maxPagesOfUser is how many pages of a user are made at once, and waitingOfUser how many requests wait for that.
	maxPagesOfUser = 4
	waitingOfUser  = 8
)

// key is the hash of the secret in a cookie.
type key [sha256.Size]byte

func keyOf(secret string) key { return sha256.Sum256([]byte(secret)) }

// newSecret returns one that no client can guess.
func newSecret() string { return rand.Text() + rand.Text() }

// sessions are those of signed-in browsers.
type sessions struct {
	idle, lifetime time.Duration

	mu    sync.Mutex
	all   map[key]*session
	users map[string]*owner
}

// owner is a user who has sessions, or requests of a session that has just ended.
type owner struct {
	name               string
	sessions, requests int
	// places are those of the requests of all sessions.
	places *access.Places
}

// session is one of them.
type session struct {
	owner *owner
	// host is that for which the browser has got the cookie. Browsers send it to other ports of the host, too.
	host  string
	pages *pages.Pages
	// A session ends at ends, and earlier without requests. The timer then forgets it and its token.
	used, ends time.Time
	timer      *time.Timer
}

func newSessions(idle, lifetime time.Duration) *sessions {
	return &sessions{idle: idle, lifetime: lifetime, all: map[key]*session{}, users: map[string]*owner{}}
}

// begin remembers a session of a user at a host, and what it shows.
func (s *sessions) begin(k key, user, host string, shown *pages.Pages) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.users[user]
	if of != nil && of.sessions >= maxOfUser {
		s.forget(s.longestUnused(of.sessions, of))
	}
	if len(s.all) >= maxSessions {
		most := 0
		for _, each := range s.users {
			most = max(most, each.sessions)
		}
		s.forget(s.longestUnused(most, nil))
	}
	if of = s.users[user]; of == nil {
		of = &owner{name: user, places: access.NewPlaces(maxPagesOfUser, waitingOfUser)}
		s.users[user] = of
	}
	of.sessions++
	now := time.Now()
	s.all[k] = &session{
		owner: of, host: host, pages: shown, used: now, ends: now.Add(s.lifetime),
		timer: time.AfterFunc(min(s.idle, s.lifetime), func() { s.end(k) }),
	}
}

// longestUnused returns the longest-unused session of a user, or, if that is nil, of all users who have so many.
func (s *sessions) longestUnused(count int, of *owner) (found key) {
	var since time.Time
	for k, session := range s.all {
		if (of == nil || session.owner == of) && session.owner.sessions == count && (since.IsZero() || session.used.Before(since)) {
			found, since = k, session.used
		}
	}
	return found
}

// use returns a session that a browser has at a host, or nil. The session goes on if the request is of a person, and not of a page that
// renews itself. The caller must say when the request is done.
func (s *sessions) use(k key, host string, byPerson bool) (found *session, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found = s.all[k]
	if found == nil || found.host != host {
		return nil, nil
	}
	if byPerson {
		found.used = time.Now()
		found.timer.Reset(min(s.idle, found.ends.Sub(found.used)))
	}
	found.owner.requests++
	return found, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		found.owner.requests--
		s.forgetOwner(found.owner)
	}
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
		found.pages.End()
		delete(s.all, k)
		found.owner.sessions--
		s.forgetOwner(found.owner)
	}
}

// forgetOwner forgets a user without sessions, when no request has a place any more.
func (s *sessions) forgetOwner(of *owner) {
	if of.sessions+of.requests == 0 {
		delete(s.users, of.name)
	}
}
