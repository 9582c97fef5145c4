// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package savedsearches counts the matches of SavedSearches.
//
// Each search is counted by the rights of a user of its own ([v1alpha1.SavedSearch.User]), never by those of search. All replicas that
// serve look at all searches. Before a replica counts, it writes the time into the status of the search, on condition that the search has
// not changed. So one replica counts, and others that wanted to do the same lose.
package savedsearches
