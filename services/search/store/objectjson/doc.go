// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package objectjson has what the store does to the JSON of objects: the form in which every database can hold them and compares them alike
// ([Normalize]), and edits of the text that is served ([WithRevision], [WithAnnotation]). Most of it looks at the bytes only, because
// decoding would take most of the time of a write.
package objectjson
