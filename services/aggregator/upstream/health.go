// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import "time"

// condition is what the last probe of a replica found.
type condition int

const (
	// unprobed: there was none yet.
	unprobed condition = iota
	// ready: it says that it is.
	ready
	// unready: it says that it is not. It starts, or stops.
	unready
	// refusing: no connection can be made, or none lasts.
	refusing
	// silent: there is no answer. It, its host or the network hangs.
	silent
)

var conditionNames = [...]string{unprobed: "unprobed", ready: "ready", unready: "unready", refusing: "refusing", silent: "silent"}

func (c condition) String() string { return conditionNames[c] }

// rank says how good a replica is for a new request. Requests go to a replica of the best rank that
// there is: when all checks say that nobody is there, the checks may be wrong.
type rank int

const (
	rankServing rank = iota
	// rankDraining: it is going to stop, and serves until then.
	rankDraining
	// rankEjected: it is ready by its own account, but requests did not get through to it.
	rankEjected
	rankUnprobed
	rankUnready
	rankRefusing
	rankSilent
	// rankFrozen: it is silent, and shows no sign of life below HTTP either. It gets no requests.
	rankFrozen

	ranks
)

var rankNames = [ranks]string{
	rankServing: "serving", rankDraining: "draining", rankEjected: "ejected", rankUnprobed: "unprobed",
	rankUnready: "unready", rankRefusing: "refusing", rankSilent: "silent", rankFrozen: "frozen",
}

// String returns the rank as metrics call it.
func (r rank) String() string { return rankNames[r] }

const (
	// strikeMemory is how long it counts against a replica that it was lost.
	strikeMemory = time.Minute
	// firstBackOff and maxBackOff are how long a replica that was lost for the second time, and
	// again and again, gets no requests after it was lost, however well it looks.
	firstBackOff = time.Second
	maxBackOff   = 30 * time.Second
)

// health is what is known about whether a replica can take requests, and what follows from it.
type health struct {
	condition condition
	// message says why the replica is not ready.
	message string
	// draining is set while the replica announces that it is going to stop.
	draining bool
	// frozen is set while a silent replica shows no sign of life.
	frozen bool

	// ejected is set when requests do not get through. It ends with a good probe that was sent after
	// ejectedAt, but not before notBefore.
	ejected   bool
	ejectedAt time.Time
	notBefore time.Time
	// strikes is how often it was lost lately.
	strikes    int
	lastStrike time.Time
}

// finding is the outcome of a probe.
type finding struct {
	condition condition
	// message says why the replica is not ready.
	message string
	// frozen is set if a silent replica shows no sign of life below HTTP either.
	frozen bool
}

func (h *health) rank() rank {
	switch {
	case h.draining && (h.condition == ready || h.condition == unready):
		return rankDraining
	case h.condition == unready:
		return rankUnready
	case h.condition == refusing:
		return rankRefusing
	case h.condition == silent && h.frozen:
		return rankFrozen
	case h.condition == silent:
		return rankSilent
	case h.ejected:
		return rankEjected
	case h.condition == ready:
		return rankServing
	}
	return rankUnprobed
}

// eject takes the replica out because a request did not get through. Where no connection could be
// made it is lost; where one broke, that may have had its reason, and the next probe decides.
func (h *health) eject(now time.Time, isLost bool) {
	if h.ejected {
		return
	}
	h.ejected, h.ejectedAt, h.notBefore = true, now, now
	if isLost {
		h.strike(now)
	}
}

// observe takes over what a probe found that was sent at a time.
func (h *health) observe(found finding, sent, now time.Time) {
	lost := found.condition == refusing || found.condition == silent
	if h.condition == ready && lost && !h.ejected {
		h.eject(now, true)
	}
	h.condition, h.message, h.frozen = found.condition, found.message, found.frozen
	if h.ejected && found.condition == ready && sent.After(h.ejectedAt) && !now.Before(h.notBefore) {
		h.ejected = false
	}
}

// strike makes a replica that is lost again and again wait longer and longer.
func (h *health) strike(now time.Time) {
	if now.Sub(h.lastStrike) > strikeMemory {
		h.strikes = 0
	}
	h.strikes++
	h.lastStrike = now
	if h.strikes > 1 {
		// Five doublings exceed the limit already.
		h.notBefore = now.Add(min(firstBackOff<<min(h.strikes-2, 5), maxBackOff))
	}
}
