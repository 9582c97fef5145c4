// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package templates executes Go templates of other people in a process that can be stopped.
//
// A template can take all memory and time with one call, such as {{ indent 1200000000 "x" }}, and Go cannot stop a goroutine. So the same
// program runs once more, as an interpreter: without environment and files, and with hard limits on memory and processor time. It reads
// tasks from its standard input and writes what they make. A task that needs more ends the interpreter, and nothing else.
package templates
