// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package access admits requests to the console from browsers that were signed in.
//
// The console prints an address with a random path and a token. The token works once: it is exchanged for a cookie, which scripts cannot
// read, and which other sites cannot make a browser send. Cookies do not distinguish ports of a host, so the random path keeps the cookie
// from other servers on this machine.
//
// A request needs the console's own address as its Host, so that a name of another site that leads to 127.0.0.1 (DNS rebinding) does not
// reach it. A request whose headers name another origin is refused. Only GET and HEAD are served.
//
// requests.go has the rules that a console for a team (package signin) shares.
package access
