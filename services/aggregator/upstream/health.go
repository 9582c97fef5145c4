// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import "time"

// condition is the result of the last probe of a replica.
type condition int

const (
	// unprobed: no probe has finished.
	unprobed condition = iota
	// ready: the replica says that it is ready.
	ready
	// busy: the replica answers late, and shows signs of life. Its last answer was that it is ready.
	busy
	// unready: the replica says that it is not ready. It is starting or stopping.
	unready
	// refusing: no connection can be made, or the replica closes it.
	refusing
	// silent: no answer. The replica, its host or the network hangs.
	silent
)

var conditionNames = [...]string{
	unprobed: "unprobed", ready: "ready", busy: "busy", unready: "unready", refusing: "refusing", silent: "silent",
}

func (c condition) String() string { return conditionNames[c] }

// rank says how good a replica is for a new request. The best rank comes first, but see roster. Requests go to the best rank that has a
// replica, because the checks may be wrong if they all fail.
type rank int

const (
	rankServing rank = iota
	// rankDraining: the replica is about to stop, and still serves.
	rankDraining
	// rankBusy: the replica serves, but late.
	rankBusy
	// rankHeldBack: the replica serves, but its version does not fit those of the others.
	rankHeldBack
	// rankEjected: the replica says that it is ready, but requests did not get through.
	rankEjected
	rankUnprobed
	rankUnready
	rankRefusing
	rankSilent
	// rankFrozen: the replica is silent and does not even answer a ping.
	rankFrozen

	ranks
)

var rankNames = [ranks]string{
	rankServing: "serving", rankDraining: "draining", rankBusy: "busy", rankHeldBack: "held-back", rankEjected: "ejected",
	rankUnprobed: "unprobed", rankUnready: "unready", rankRefusing: "refusing", rankSilent: "silent", rankFrozen: "frozen",
}

// String returns the name of the rank in metrics.
func (r rank) String() string { return rankNames[r] }

const (
	// strikeMemory is how long a loss counts against a replica.
	strikeMemory = time.Minute
	// From its second loss on, a replica gets no requests for firstBackOff, doubled with each later loss up to maxBackOff, even if it looks
	// healthy.
	firstBackOff = time.Second
	maxBackOff   = 30 * time.Second
)

// health is the state of a replica, from which its rank follows.
type health struct {
	condition condition
	// answer is ready or unready, whichever the replica reported last, or unprobed.
	answer condition
	// message says why the replica is not ready.
	message string
	// draining is true while the replica announces that it is about to stop.
	draining bool
	// heldBack is true while requests shall go elsewhere.
	heldBack bool
	// frozen is true while a silent replica does not answer pings.
	frozen bool

	// ejected is true after a request did not get through. It ends with a good probe that was sent after ejectedAt and finished after
	// notBefore.
	ejected   bool
	ejectedAt time.Time
	notBefore time.Time
	// strikes counts recent losses.
	strikes    int
	lastStrike time.Time
}

// finding is the result of a probe.
type finding struct {
	condition condition
	// message says why the replica is not ready.
	message string
	// frozen is true if a silent replica does not answer pings either.
	frozen bool
}

func (h *health) rank() rank {
	switch {
	case h.draining && (h.isReady() || h.condition == unready):
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
	case h.heldBack && h.isReady():
		return rankHeldBack
	case h.condition == busy:
		return rankBusy
	case h.condition == ready:
		return rankServing
	}
	return rankUnprobed
}

// isReady reports whether the replica can serve, however late.
func (h *health) isReady() bool { return h.condition == ready || h.condition == busy }

// eject stops new requests because one did not get through. If no connection could be made, the replica is lost. A broken connection may
// have another cause, so the next probe decides.
func (h *health) eject(now time.Time, isLost bool) {
	if h.ejected {
		return
	}
	h.ejected, h.ejectedAt, h.notBefore = true, now, now
	if isLost {
		h.strike(now)
	}
}

// observe stores the result of a probe. sent is when the probe started.
func (h *health) observe(found finding, sent, now time.Time) {
	switch found.condition {
	case ready, unready:
		h.answer = found.condition
	case refusing:
		h.answer = unprobed
	case busy:
		// A late answer would probably be the same as the last one.
		if found.condition = h.answer; h.answer == ready {
			found.condition = busy
		} else if h.answer == unprobed {
			found.condition = silent
		}
	}
	lost := found.condition == refusing || found.condition == silent
	if h.isReady() && lost && !h.ejected {
		h.eject(now, true)
	}
	h.condition, h.message, h.frozen = found.condition, found.message, found.frozen
	if h.ejected && found.condition == ready && sent.After(h.ejectedAt) && !now.Before(h.notBefore) {
		h.ejected = false
	}
}

// strike makes a replica that is lost repeatedly wait longer each time.
func (h *health) strike(now time.Time) {
	if now.Sub(h.lastStrike) > strikeMemory {
		h.strikes = 0
	}
	h.strikes++
	h.lastStrike = now
	if h.strikes > 1 {
		// Five doublings exceed the limit.
		h.notBefore = now.Add(min(firstBackOff<<min(h.strikes-2, 5), maxBackOff))
	}
}
