// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package signin admits the users of a console that a team shares. A browser gets a session for a bearer token that its user pastes
// (guard.go), or for one of an OpenID Connect issuer (oidc.go). The API server is asked for the user of the token first.
//
// Each session has a client of its own, which sends this token with each request and nothing else (credentials.go): the console has no
// credentials, and impersonates no user. Tokens are only in memory. A session ends when its user signs out, after a time without requests,
// after a longest time, and when the API server refuses its token (sessions.go).
//
// A request must name a host that is listed, so that a name of another site does not reach the console, and must come from a page of the
// console. The exception is the way back from an issuer, which a cookie of its own joins to the way there.
//
// Attempts to sign in are bounded (attempts.go). The metadata of the issuer and tokens are renewed in the background, so that no page waits
// for the issuer while its token is valid (refresh.go).
package signin
