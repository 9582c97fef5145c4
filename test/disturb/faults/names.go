// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"

	"golang.org/x/net/dns/dnsmessage"
)

// domain is the DNS domain of the backends.
const domain = "tripod-faults.test"

// names is a DNS server that can lie.
type names struct {
	connection net.PacketConn
	mu         sync.Mutex
	// addresses has the addresses by name, such as core. Other names do not exist.
	addresses map[string][]string
	silent    bool
}

func serveNames(ctx context.Context, address string) (*names, error) {
	connection, err := new(net.ListenConfig).ListenPacket(ctx, "udp", address+":53")
	if err != nil {
		return nil, fmt.Errorf("cannot answer questions about names: %w", err)
	}
	n := &names{connection: connection, addresses: map[string][]string{}}
	go n.serve()
	return n, nil
}

func (n *names) close() error { return n.connection.Close() }

// set changes the addresses of a name, and returns the previous ones.
func (n *names) set(name string, addresses ...string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	before := n.addresses[name]
	n.addresses[name] = addresses
	return before
}

// answer makes it answer, or stay silent.
func (n *names) answer(answers bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.silent = !answers
}

func (n *names) serve() {
	buffer := make([]byte, 1500)
	for {
		length, from, err := n.connection.ReadFrom(buffer)
		if err != nil {
			return // the connection is closed
		}
		var question dnsmessage.Message
		if question.Unpack(buffer[:length]) != nil || len(question.Questions) != 1 {
			continue
		}
		n.mu.Lock()
		silent, addresses := n.silent, n.addresses[strings.TrimSuffix(question.Questions[0].Name.String(), "."+domain+".")]
		n.mu.Unlock()
		if silent {
			continue
		}
		if answer, err := answerWith(question, addresses); err == nil {
			_, _ = n.connection.WriteTo(answer, from) // clients ask again
		}
	}
}

func answerWith(message dnsmessage.Message, addresses []string) ([]byte, error) {
	message.Response, message.Authoritative, message.Additionals = true, true, nil
	question := message.Questions[0]
	if len(addresses) == 0 {
		message.RCode = dnsmessage.RCodeNameError
	}
	for _, address := range addresses {
		if question.Type == dnsmessage.TypeA {
			message.Answers = append(message.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: question.Name, Type: question.Type, Class: question.Class, TTL: 1},
				Body:   &dnsmessage.AResource{A: netip.MustParseAddr(address).As4()},
			})
		}
	}
	return message.Pack()
}
