// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package console shows the objects of many clusters in a browser. `tripod console` serves pages at a loopback address, and reads search
// with the credentials of the caller (server.go). `tripod console serve` serves them to a team, whose users sign in, and reads search with
// the token of each user (team.go). Neither changes anything, or has rights of its own.
//
// A request takes this way:
//
//   - [github.com/tripod-k8s/tripod/console/access] admits requests of the caller's own browser, and
//     [github.com/tripod-k8s/tripod/console/signin] those of users who have signed in.
//   - [github.com/tripod-k8s/tripod/console/pages] has the views, and writes HTML without scripts, but for
//     one page.
//   - [github.com/tripod-k8s/tripod/console/live] follows the instance that this page shows.
//   - [github.com/tripod-k8s/tripod/console/query] turns the text of the search box into parameters of search.
//   - [github.com/tripod-k8s/tripod/console/searchclient] reads the API server, and sends nothing that could change an object.
//
// Each name and value of a cluster is hostile text. html/template escapes it, and the Content-Security-Policy forbids all scripts
// but that of the page of services, which cannot write HTML.
package console
