// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pages has the views of the console: results of a search (find.go), an object (object.go) with its relations and its history, the
// same object in two clusters, exports, services (services.go) with APIServices by owner (apiservices.go), and the pages of a browser that
// is not signed in (signin.go). Pages are HTML without scripts, except that services.js renews the page of services. A path has one
// function that reads search and fills a model, and one template that shows it.
package pages
