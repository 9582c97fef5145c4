// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package follow keeps streams to replicas of other services: a stream that ends, or is silent for too long, is made again,
// after pauses that grow.
package follow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/internal/hop/foreign"
)

const (
	// steady is how long a stream must have lasted for its end to be news, rather than one more failure.
	steady = 5 * time.Second
	// logInterval is the least time between lines of the log that say why no replica is followed.
	logInterval = 10 * time.Second
	// brief is how long it must have lasted for other replicas to be tried once more before a pause.
	brief = time.Second
	// settled is how long it must have lasted for pauses to begin anew. They grow for replicas that end each stream.
	settled = time.Minute
)

// newBackoff returns the pauses between rounds over all replicas. All aggregators together must not burden a replica that starts, nor the next
// one when a replica stops that they all follow. A pause is not long, because meanwhile nobody hears of revoked tokens: less than 100 ms at
// first, and less than 800 ms later.
func newBackoff() wait.Backoff {
	return wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 1, Steps: 4, Cap: 400 * time.Millisecond}
}

// Conn is a connection to one replica. *grpc.ClientConn is one.
type Conn interface {
	grpc.ClientConnInterface
	io.Closer
}

// Stream is a stream to one replica at a time: when it ends, the next replica is tried at once.
type Stream struct {
	// Name names the stream in the log.
	Name string
	// Addresses returns those of the replicas, host:port, as they are now.
	Addresses func() []string
	// Dial returns a connection to the replica at an address. It does not wait for it.
	Dial func(address string) (Conn, error)
	// Silence is how long a replica may be silent before the stream to it ends. 0 is without end.
	Silence time.Duration
	// Run makes the stream and uses it until it ends. The error says why it ended. Both context and connection are of this stream alone. A panic ends
	// only the stream.
	Run func(context.Context, *Session) error
	// Failed is called when no replica can be followed, and Retry after the pause that comes next. They may be nil.
	Failed func(error)
	Retry  func()

	// logged is the last failure in the log, and when it came there.
	logged   string
	loggedAt time.Time
}

// Follow follows replicas until the context ends. It is called once.
func (s *Stream) Follow(ctx context.Context) {
	// Aggregators that start together spread over the replicas.
	next := rand.IntN(max(len(s.Addresses()), 1))
	backoff := newBackoff()
	for {
		lasted, err := s.round(ctx, &next)
		if ctx.Err() != nil {
			return
		}
		if lasted > settled {
			backoff = newBackoff()
		}
		if err != nil {
			s.fail(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(backoff.Step()):
		}
		if err != nil && s.Retry != nil {
			s.Retry()
		}
	}
}

func (s *Stream) fail(err error) {
	if err.Error() != s.logged && time.Since(s.loggedAt) > logInterval {
		s.note(err)
		klog.InfoS("No replica can be followed, trying again", "stream", s.Name, "err", err)
	}
	if s.Failed != nil {
		s.Failed(err)
	}
}

func (s *Stream) note(failure error) { s.logged, s.loggedAt = failure.Error(), time.Now() }

// round tries to follow each of the replicas once, beginning with that number next. As soon as one was lost that had been followed for a while,
// it returns for how long, and otherwise why none could be followed. When one is lost that was followed for a moment, the others are tried
// once more: they may have come up meanwhile.
func (s *Stream) round(ctx context.Context, next *int) (time.Duration, error) {
	addresses := s.Addresses()
	if len(addresses) == 0 {
		return 0, errNone
	}
	var failures []error
	for again := false; len(failures) < len(addresses) && ctx.Err() == nil; {
		*next %= len(addresses)
		address := addresses[*next]
		*next++
		followed, err := s.once(ctx, address)
		if followed > steady {
			s.logged = ""
			return followed, nil
		}
		// One that is lost again and again at once does not count: there must be pauses.
		if followed > brief || followed > 0 && !again {
			again, failures = true, nil
		}
		err = fmt.Errorf("%s: %w", address, err)
		if followed > 0 {
			s.note(err) // the log has it
		}
		failures = append(failures, err)
	}
	return 0, utilerrors.NewAggregate(failures)
}

var (
	errNone   = errors.New("no replica is known")
	errSilent = errors.New("it was silent for too long")
	errEnded  = errors.New("it ended the stream")
)

// once follows the replica at the address until the stream ends, and returns for how long.
func (s *Stream) once(ctx context.Context, address string) (time.Duration, error) {
	conn, err := s.Dial(address)
	if err != nil {
		return 0, err
	}
	defer conn.Close() //nolint:errcheck // nothing is left to be lost
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	session := &Session{Address: address, Conn: conn, stream: s, leave: leave}
	if s.Silence > 0 {
		session.watchdog = time.AfterFunc(s.Silence, func() { leave(errSilent) })
		defer session.watchdog.Stop()
	}
	err = reason(ctx, s.run(ctx, session))
	if session.since.IsZero() {
		return 0, err
	}
	klog.InfoS("Not following a replica any more", "stream", s.Name, "replica", address, "reason", err)
	return time.Since(session.since), err
}

func (s *Stream) run(ctx context.Context, session *Session) (err error) {
	defer foreign.Recover(s.Name, &err)
	return s.Run(ctx, session)
}

// reason returns why a stream ended.
func reason(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err == nil || errors.Is(err, io.EOF) {
		return errEnded
	}
	if failed, ok := status.FromError(err); ok {
		return errors.New(failed.Message())
	}
	return err
}

// Session is a stream to one replica, from its connection to its end.
type Session struct {
	Address string
	Conn    Conn

	stream   *Stream
	leave    context.CancelCauseFunc
	watchdog *time.Timer
	since    time.Time
}

// Alive says that the replica gave a sign of life. From the first on it is followed. Run calls it.
func (s *Session) Alive() {
	if s.watchdog != nil {
		s.watchdog.Reset(s.stream.Silence)
	}
	if s.since.IsZero() {
		s.since = time.Now()
		klog.InfoS("Following a replica", "stream", s.stream.Name, "replica", s.Address)
	}
}

// Leave ends the stream. Anybody may call it.
func (s *Session) Leave(why error) { s.leave(why) }
