// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package tokens

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tripod-k8s/tripod/base/hop/follow"
	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

// authenticateFunc and watchFunc are what a connection to a replica of core carries.
type (
	authenticateFunc func(context.Context, *identityv1.AuthenticateRequest) (*identityv1.AuthenticateResponse, error)
	watchFunc        func(context.Context) (receiver, error)
	receiver         func() (*identityv1.WatchResponse, error)
)

// testConn is a Conn without a network.
type testConn struct {
	authenticate authenticateFunc
	watch        watchFunc
	close        func()
}

func (c *testConn) Close() error {
	c.close()
	return nil
}

func (c *testConn) Invoke(ctx context.Context, method string, args, reply any, _ ...grpc.CallOption) error {
	if method != identityv1.Identity_Authenticate_FullMethodName {
		return status.Error(codes.Unimplemented, method)
	}
	response, err := c.authenticate(ctx, args.(*identityv1.AuthenticateRequest))
	if err == nil {
		proto.Merge(reply.(proto.Message), response)
	}
	return err
}

func (c *testConn) NewStream(ctx context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	if method != identityv1.Identity_Watch_FullMethodName {
		return nil, status.Error(codes.Unimplemented, method)
	}
	receive, err := c.watch(ctx)
	return &testStream{receive: receive}, err
}

type testStream struct {
	grpc.ClientStream
	receive receiver
}

func (*testStream) SendMsg(any) error { return nil }
func (*testStream) CloseSend() error  { return nil }

func (s *testStream) RecvMsg(m any) error {
	message, err := s.receive()
	if err == nil {
		proto.Merge(m.(proto.Message), message)
	}
	return err
}

// testCore is one replica of core whose answers a test sets.
type testCore struct {
	run string

	mu       sync.Mutex
	down     bool
	sequence uint64
	answers  map[string]func() (*identityv1.AuthenticateResponse, error)
	asked    map[string]int
	streams  map[*coreStream]struct{}
}

// coreStream is what a replica has sent on a stream.
type coreStream struct {
	sent  chan *identityv1.WatchResponse
	ended chan struct{}
}

func newTestCore(run string) *testCore {
	return &testCore{
		run:     run,
		answers: map[string]func() (*identityv1.AuthenticateResponse, error){},
		asked:   map[string]int{},
		streams: map[*coreStream]struct{}{},
	}
}

// serviceAccount is a dependency.
func serviceAccount(uid string) *identityv1.Dependency {
	return &identityv1.Dependency{Kind: identityv1.Dependency_KIND_SERVICE_ACCOUNT, Id: uid}
}

// is returns the answer that a token is good for ten seconds and as long as a service account is there.
func is(name, uid string) *identityv1.AuthenticateResponse {
	return &identityv1.AuthenticateResponse{
		User:         &identityv1.User{Name: name},
		FreshFor:     durationpb.New(10 * time.Second),
		Dependencies: []*identityv1.Dependency{serviceAccount(uid)},
	}
}

// answer makes the replica give this answer about the token, with what it knows by then.
func (c *testCore) answer(token string, response *identityv1.AuthenticateResponse) {
	c.on(token, func() (*identityv1.AuthenticateResponse, error) { return response, nil })
}

// on makes the replica call a function for an answer about the token. It has looked at the token when it is called.
func (c *testCore) on(token string, respond func() (*identityv1.AuthenticateResponse, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers[token] = respond
}

// questions returns how often the replica was asked about the token.
func (c *testCore) questions(token string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked[token]
}

func (c *testCore) dial() *testConn {
	closed, closeConn := context.WithCancel(context.Background())
	return &testConn{
		close: closeConn,
		watch: c.watch,
		authenticate: func(ctx context.Context, request *identityv1.AuthenticateRequest) (*identityv1.AuthenticateResponse, error) {
			type result struct {
				response *identityv1.AuthenticateResponse
				err      error
			}
			results := make(chan result, 1)
			go func() {
				response, err := c.authenticate(request)
				results <- result{response, err}
			}()
			select {
			case r := <-results:
				return r.response, r.err
			case <-ctx.Done():
				return nil, status.FromContextError(ctx.Err()).Err()
			case <-closed.Done():
				return nil, status.Error(codes.Canceled, "the connection is closed")
			}
		},
	}
}

func (c *testCore) authenticate(request *identityv1.AuthenticateRequest) (*identityv1.AuthenticateResponse, error) {
	token := request.GetToken()
	for _, audience := range request.GetAudiences() {
		token += " for " + audience
	}
	c.mu.Lock()
	c.asked[token]++
	sequence, respond, down := c.sequence, c.answers[token], c.down
	c.mu.Unlock()
	if down {
		return nil, status.Error(codes.Unavailable, "down")
	}
	response := &identityv1.AuthenticateResponse{Error: "unknown token"}
	if respond != nil {
		var err error
		if response, err = respond(); err != nil {
			return nil, err
		}
	}
	response = proto.CloneOf(response)
	if response.Run == "" {
		response.Run, response.Sequence = c.run, sequence
	}
	return response, nil
}

func (c *testCore) watch(ctx context.Context) (receiver, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		return nil, status.Error(codes.Unavailable, "connection refused")
	}
	stream := &coreStream{sent: make(chan *identityv1.WatchResponse, 100), ended: make(chan struct{})}
	c.streams[stream] = struct{}{}
	stream.sent <- &identityv1.WatchResponse{Run: c.run, Sequence: c.sequence}
	return func() (*identityv1.WatchResponse, error) {
		alive := time.NewTicker(time.Second)
		defer alive.Stop()
		select {
		case message := <-stream.sent:
			return message, nil
		case <-stream.ended:
			return nil, io.EOF
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		case <-alive.C:
			c.mu.Lock()
			defer c.mu.Unlock()
			return &identityv1.WatchResponse{Run: c.run, Sequence: c.sequence}, nil
		}
	}, nil
}

// send sends a message on all streams.
func (c *testCore) send(message *identityv1.WatchResponse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for stream := range c.streams {
		stream.sent <- message
	}
}

// invalidate reports that a service account has changed, and returns when the client has received that.
func (c *testCore) invalidate(uid string) {
	c.mu.Lock()
	c.sequence++
	message := &identityv1.WatchResponse{Run: c.run, Sequence: c.sequence, Invalidations: []*identityv1.Invalidation{
		{Sequence: c.sequence, Dependency: serviceAccount(uid)},
	}}
	c.mu.Unlock()
	c.send(message)
	synctest.Wait()
}

// stop ends all streams and refuses connections, and returns when that was noticed.
func (c *testCore) stop() {
	c.mu.Lock()
	c.down = true
	for stream := range c.streams {
		close(stream.ended)
	}
	clear(c.streams)
	c.mu.Unlock()
	synctest.Wait()
}

// start accepts connections again.
func (c *testCore) start(run string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.run, c.down, c.sequence = run, false, 0
}

// newTestClient returns a client of the replicas that runs until the test ends. It must be called in a bubble.
func newTestClient(t *testing.T, grace time.Duration, replicas ...*testCore) *Client {
	t.Helper()
	var addresses []string
	for i := range replicas {
		addresses = append(addresses, fmt.Sprintf("replica-%d", i))
	}
	config := Config{Grace: grace, Addresses: at(addresses...)}
	config.Dial = func(address string) (follow.Conn, error) {
		for i, known := range addresses {
			if known == address {
				return replicas[i].dial(), nil
			}
		}
		return nil, errors.New("no such address")
	}
	c := New(config)
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() {
		c.Run(ctx)
		close(stopped)
	}()
	t.Cleanup(func() {
		stop()
		<-stopped
	})
	synctest.Wait()
	return c
}

// at has the replicas always at these addresses.
func at(addresses ...string) func() []string {
	return func() []string { return addresses }
}
