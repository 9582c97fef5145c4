// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package tokens

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tripod-k8s/tripod/base/hop/follow"
	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

// identityServer is a replica of core behind gRPC.
type identityServer struct {
	identityv1.UnimplementedIdentityServer
	run string
	// asked gets a value for each question, which is answered when answer is closed.
	asked  chan<- string
	answer <-chan struct{}
}

func (s *identityServer) Authenticate(ctx context.Context, _ *identityv1.AuthenticateRequest) (*identityv1.AuthenticateResponse, error) {
	s.asked <- s.run
	select {
	case <-s.answer:
	case <-ctx.Done():
	}
	response := is(s.run, "1")
	response.Run = s.run
	return response, nil
}

func (s *identityServer) Watch(_ *identityv1.WatchRequest, stream grpc.ServerStreamingServer[identityv1.WatchResponse]) error {
	alive := time.NewTicker(time.Second)
	defer alive.Stop()
	for {
		if err := stream.Send(&identityv1.WatchResponse{Run: s.run}); err != nil {
			return err
		}
		select {
		case <-alive.C:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

func TestAQuestionSurvivesTheServerThatItWasSentTo(t *testing.T) {
	asked, answer := make(chan string, 10), make(chan struct{})
	servers := map[string]*grpc.Server{}
	var addresses []string
	for range 2 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		address := listener.Addr().String()
		addresses = append(addresses, address)
		server := grpc.NewServer()
		identityv1.RegisterIdentityServer(server, &identityServer{run: address, asked: asked, answer: answer})
		servers[address] = server
		served := make(chan struct{})
		go func() {
			defer close(served)
			_ = server.Serve(listener) // ends with the server
		}()
		t.Cleanup(func() { server.Stop(); <-served })
	}
	c := New(Config{Addresses: at(addresses...), Dial: func(address string) (follow.Conn, error) {
		return grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	}})
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() { c.Run(ctx); close(stopped) }()
	defer func() { stop(); <-stopped }()

	answers := make(chan string, 1)
	go func() { answers <- whoIs(ctx, c, token) }()
	first := <-asked
	servers[first].Stop()
	second := <-asked
	if first == second {
		t.Errorf("the server at %s was asked again after it was stopped", first)
	}
	close(answer)
	assert.Equal(t, second, <-answers, "the token")

	servers[second].Stop()
	assert.Equal(t, unavailable, whoIs(ctx, c, "unknown"), "when all servers are stopped an unknown token")
}
