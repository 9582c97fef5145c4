// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package follow keeps streams to replicas of other services open. If a stream ends, or stays silent for too long, it makes a new one,
// after growing pauses.
package follow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/hop/attention"
	"github.com/tripod-k8s/tripod/base/hop/recovery"
)

const (
	// steady is how long a stream must have lasted for its end to be worth a line in the log, instead of one more failure.
	steady = 5 * time.Second
	// logInterval is the shortest time between two lines of the log about why no replica can be followed.
	logInterval = 10 * time.Second
	// brief is how long a stream must have lasted for the other replicas to be tried once more before a pause.
	brief = time.Second
	// settled is how long a stream must have lasted for the pauses to start from the beginning. They grow for replicas that end every stream.
	settled = time.Minute
)

// newBackoff returns the pauses between rounds over all replicas. All aggregators together must not overload a replica that starts, or the
// next one when the replica that they all followed stops. The pauses are short, because during them revoked tokens stay unknown: less
// than 100 ms at first, and less than 800 ms later.
func newBackoff() wait.Backoff {
	return wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 1, Steps: 4, Cap: 400 * time.Millisecond}
}

// Conn is a connection to one replica, such as *grpc.ClientConn.
type Conn interface {
	grpc.ClientConnInterface
	io.Closer
}

// Stream is a stream to one replica at a time. When it ends, Follow tries the next replica at once.
type Stream struct {
	// Name is the name of the stream in the log.
	Name string
	// Addresses returns the current addresses (host:port) of the replicas.
	Addresses func() []string
	// Dial returns a connection to the replica at an address, without waiting until it is connected.
	Dial func(address string) (Conn, error)
	// Silence is how long a replica may send nothing, in time that this process had (package attention). Then the stream ends if the replica
	// can be spared. 0 means forever.
	Silence time.Duration
	// Spare reports whether the stream can do without the replica at an address, because another one is better. A silent replica that cannot
	// be spared may only be busy: the stream goes on until its connection ends. If Spare is nil, every replica can be spared.
	Spare func(address string) bool
	// Run opens the stream and uses it until it ends. The error says why it ended. The context and the connection belong to this stream alone.
	// A panic ends only the stream.
	Run func(context.Context, *Session) error
	// Failed is called when no replica can be followed, and Retry after the pause that follows. Both may be nil.
	Failed func(error)
	Retry  func()

	// logged is the last failure in the log, followed by its time.
	logged   string
	loggedAt time.Time
}

// Follow follows replicas until the context ends. Call it once.
func (s *Stream) Follow(ctx context.Context) {
	// Aggregators that start together must spread over the replicas.
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

// round tries each replica once, starting with number next. If it followed one for a while and lost it, it returns how long. If it could
// follow none, it returns why. If it lost one after a moment, it tries the others once more, because they may have started meanwhile.
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
		// A replica that ends each stream at once does not count: there must be pauses.
		if followed > brief || followed > 0 && !again {
			again, failures = true, nil
		}
		err = fmt.Errorf("%s: %w", address, err)
		if followed > 0 {
			s.note(err) // the log has the reason
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

// once follows the replica at the address until the stream ends, and returns how long that was.
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
		session.watch()
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
	defer recovery.ToError(s.Name, &err)
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

// Session is a stream to one replica, from the connection to the end.
type Session struct {
	Address string
	Conn    Conn

	stream   *Stream
	leave    context.CancelCauseFunc
	watchdog *attention.Timer
	since    time.Time
	// signs counts signs of life.
	signs atomic.Int64
}

// spareInterval is the time between two questions whether a silent replica can be spared.
const spareInterval = 500 * time.Millisecond

// watch leaves the replica after too long a silence, as soon as it can be spared.
func (s *Session) watch() {
	silent := int64(-1)
	s.watchdog = attention.AfterFunc(s.stream.Silence, func() (again time.Duration) {
		signs := s.signs.Load()
		switch {
		case s.stream.Spare == nil || s.stream.Spare(s.Address):
			s.leave(errSilent)
			return 0
		case signs != silent:
			klog.InfoS("A replica is silent, and is followed because no other is better", "stream", s.stream.Name, "replica", s.Address)
			silent = signs
		}
		return spareInterval
	})
}

// Alive reports a sign of life of the replica. After the first one the replica counts as followed. Run must call it.
func (s *Session) Alive() {
	if s.watchdog != nil {
		s.signs.Add(1)
		s.watchdog.Reset(s.stream.Silence)
	}
	if s.since.IsZero() {
		s.since = time.Now()
		klog.InfoS("Following a replica", "stream", s.stream.Name, "replica", s.Address)
	}
}

// Leave ends the stream. Any goroutine may call it.
func (s *Session) Leave(why error) { s.leave(why) }
