// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// retries are the pauses after failures.
func retries() *wait.Backoff {
	return &wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 6, Cap: time.Minute}
}

// storeRetries are the pauses after failures of the database. It is one for all members, so it is worth asking more often.
func storeRetries() *wait.Backoff {
	return &wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 4, Cap: 5 * time.Second}
}

// limitRetries are the pauses after a member has sent more than search takes, or was too slow. Most will do so again, but a moment without
// processors is over soon.
func limitRetries() *wait.Backoff {
	return &wait.Backoff{Duration: 5 * time.Second, Factor: 2, Jitter: 0.5, Steps: 9, Cap: 15 * time.Minute}
}

// discoveryRetries are the pauses while a member does not answer. When it does, its streams try again.
func discoveryRetries() *wait.Backoff {
	return &wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 5, Cap: 10 * time.Second}
}

// pause waits after a failure. It ends early if the member did not answer, and then does.
func (s *stream) pause(ctx context.Context, pause time.Duration, failure error) {
	var answers <-chan struct{}
	if !answered(failure) && !isLimit(failure) {
		answers = s.answers.Next()
	}
	select {
	case <-ctx.Done():
	case <-answers:
	case <-time.After(pause):
	}
}

// answered reports whether a failure is an answer of a member: that it forbids something, or does not have it.
func answered(failure error) bool {
	var status apierrors.APIStatus
	return errors.As(failure, &status) && status.Status().Code < http.StatusInternalServerError
}

func sleep(ctx context.Context, pause time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}

// dataTries is after how many failures search asks whether they are about the data.
const dataTries = 3

// refusedByStore says that the database does not take the data.
type refusedByStore struct{ error }

func isRefusedByStore(err error) bool { return errors.As(err, new(refusedByStore)) }

// keepTrying tries until the store takes something or refuses it. It never tries the same data for ever.
func (s *stream) keepTrying(ctx context.Context, do func() error) error {
	pauses := storeRetries()
	for try := 1; ; try++ {
		err := do()
		if err == nil || errors.Is(err, streams.ErrFenced) {
			return err
		}
		if store.IsRefused(err) || try%dataTries == 0 && s.store.IsAboutData(ctx, s.target, err) {
			return refusedByStore{err}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.storeFailures.Add(1)
		before := s.Status()
		s.fail(storeError{err})
		sleep(ctx, pauses.Step())
		s.set(func(status *Status) {
			status.Phase, status.Reason, status.Message = before.Phase, before.Reason, before.Message
		})
	}
}
