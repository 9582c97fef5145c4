// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Members are not all kube-apiservers of today, and behind one may be any aggregated API servers: some refuse streaming lists, or
// take them and never end them, some refuse watches, some give their objects no uid and no resourceVersion. What can be listed is copied
// nevertheless.

const (
	// listInterval is how often a resource is listed that cannot be watched. Search warns of copies that are three times as old.
	listInterval = time.Minute
	// refusalsToList are the failures in a row that count as a refusal. An API server that fails once is not to list everything again.
	refusalsToList = 3
	// notWatched is the reason of streams of resources that cannot be watched.
	notWatched = "NotWatched"
)

// codeOf returns the code of the Status with which a member has answered, or zero.
func codeOf(err error) int {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return 0
	}
	return int(status.Status().Code)
}

// isForLater reports whether an answer says nothing about what the member can do: it does not know the sender, has too much to do, or is
// not available.
func isForLater(code int) bool {
	switch code {
	case 0, http.StatusUnauthorized, http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// errNoEvents says that a member has answered a watch with something else. It may not know watches.
var errNoEvents = errors.New("the member answers a watch with something else")

// refusesStreaming reports whether a member refuses a streaming list. It may take a plain one, whatever its reason is.
func refusesStreaming(err error) bool { return errors.Is(err, errNoEvents) || !isForLater(codeOf(err)) }

// refusesWatch reports whether a member refuses to let a resource be watched that it has listed.
func (s *stream) refusesWatch(err error) bool {
	code := codeOf(err)
	switch {
	case errors.Is(err, errNoEvents):
	case isForLater(code):
		s.refusals = 0
		return false
	case code >= http.StatusInternalServerError && code != http.StatusNotImplemented:
		s.refusals++
		return s.refusals >= refusalsToList
	}
	return true
}

// errNoVersion says why a resource cannot be watched.
var errNoVersion = errors.New("its lists have no resourceVersion")

// awaitNextList waits until a resource is to be listed that cannot be watched. It may be possible then.
func (s *stream) awaitNextList(ctx context.Context, why error) error {
	s.set(func(status *Status) {
		status.Phase, status.Listing, status.Reason = Syncing, false, notWatched
		status.Message = shortened("the resource cannot be watched, so search lists it every "+s.listInterval.String()+": "+why.Error(),
			maxMessage)
	})
	s.saveStatus(ctx)
	sleep(ctx, s.listInterval)
	return nil
}

// versionOfText stands for the resourceVersion of an object that has none: search knows by it whether the object has changed.
func versionOfText(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}
