// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package query reads the text of the console's search box. Words find objects by their names, namespaces, kinds and so on. Parts such as
// kind:Pod, cluster:east or label:app=web are parameters of search. Quotes keep blanks together: "a b", field:"status.phase in (Failed)".
package query
