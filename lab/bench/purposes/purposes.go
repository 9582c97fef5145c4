// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package purposes says what the processor time of an API server is for, by a CPU profile (runtime/pprof).
package purposes

import (
	"errors"
	"fmt"
	"io"
	"regexp"

	"github.com/google/pprof/profile"
)

// rules say what a function is for. Of the functions on a stack, the innermost one counts for which there is a rule.
var rules = []struct {
	purpose   string
	functions *regexp.Regexp
}{
	{"memory: allocation and garbage collection", regexp.MustCompile(`^runtime\.(mallocgc|gc|\(\*gc|bgsweep|bgscavenge|scanobject|sweepone|\(\*sweep|\(\*mheap|\(\*mcache|\(\*mcentral|newobject|growslice|makeslice|markroot|wbBuf|bulkBarrier)`)},
	{"scheduler of Go: goroutines, threads, timers", regexp.MustCompile(`^runtime\.(schedule|findRunnable|mcall|park_m|goready|ready|wakep|startm|stopm|futex|mstart|sysmon|netpoll|\(\*timer|goexit0|newproc|gopark|selectgo|notesleep|notewakeup|stealWork|exitsyscall|entersyscall|reentersyscall|chansend|chanrecv|casgstatus)`)},
	{"system calls: sockets and files", regexp.MustCompile(`^(internal/poll|syscall|internal/runtime/syscall)[./]`)},
	{"TLS", regexp.MustCompile(`^(crypto|vendor/golang\.org/x/crypto)/`)},
	{"metrics, traces and logs", regexp.MustCompile(`^(github\.com/prometheus/|k8s\.io/component-base/|go\.opentelemetry\.io/|k8s\.io/klog|k8s\.io/apiserver/pkg/(endpoints/metrics|server/httplog))`)},
	{"gRPC and the client of etcd", regexp.MustCompile(`^(google\.golang\.org/grpc|go\.etcd\.io/)`)},
	{"decoding, encoding and copies of objects", regexp.MustCompile(`^(encoding/|sigs\.k8s\.io/(json|yaml)|google\.golang\.org/protobuf|github\.com/(json-iterator|fxamacker/cbor|klauspost)|compress/|k8s\.io/apimachinery/pkg/(runtime|conversion))|\.(Unmarshal|Marshal\w*|Size|DeepCopy\w*|Convert_\w+)$`)},
	{"managed fields and patches", regexp.MustCompile(`^(sigs\.k8s\.io/structured-merge-diff|k8s\.io/apimachinery/pkg/util/(managedfields|strategicpatch|jsonmergepatch)|gopkg\.in/evanphx)`)},
	{"watch caches and watches", regexp.MustCompile(`^k8s\.io/(apiserver/pkg/storage/cacher|apimachinery/pkg/watch|apiserver/pkg/endpoints/handlers\.\(\*WatchServer)`)},
	{"storage", regexp.MustCompile(`^k8s\.io/apiserver/pkg/(storage|registry)`)},
	{"authentication, authorization, audit, priority and fairness", regexp.MustCompile(`^k8s\.io/(apiserver/pkg/(authentication|authorization|audit|endpoints/(filters|request|filterlatency)|server/filters|util/flowcontrol)|apiserver/plugin|kubernetes/(plugin/pkg/auth|pkg/auth)|component-helpers/auth)`)},
	{"admission, defaults and validation", regexp.MustCompile(`^k8s\.io/(apiserver/pkg/(admission|cel)|kubernetes/(pkg/(apis|registry|controlplane|quota)|plugin/pkg/admission)|apimachinery/pkg/(api|util/validation))`)},
	{"HTTP", regexp.MustCompile(`^(golang\.org/x/net/|net/http|net/textproto|k8s\.io/apiserver/pkg/(endpoints|server))`)},
	{"informers and reflectors", regexp.MustCompile(`^k8s\.io/(client-go|controller-manager)/`)},
	{"functions of Tripod", regexp.MustCompile(`^github\.com/tripod-k8s/tripod/`)},
}

// Else is what there is no rule for.
const Else = "all else"

// All returns the purposes in the order of the rules, and [Else].
func All() []string {
	names := make([]string, 0, len(rules)+1)
	for _, r := range rules {
		names = append(names, r.purpose)
	}
	return append(names, Else)
}

// Shares returns which share of the processor time in a profile is for each purpose. A process that used no time has none.
func Shares(r io.Reader) (map[string]float64, error) {
	p, err := profile.Parse(r)
	if err != nil {
		return nil, fmt.Errorf("not a profile: %w", err)
	}
	at := -1
	for i, of := range p.SampleType {
		if of.Type == "cpu" {
			at = i
		}
	}
	if at < 0 {
		return nil, errors.New("not a profile of processor time")
	}
	shares, known, all := map[string]float64{}, map[string]string{}, 0.0
	for _, sample := range p.Sample {
		spent := float64(sample.Value[at])
		shares[purposeOf(sample, known)] += spent
		all += spent
	}
	for purpose := range shares {
		shares[purpose] /= all
	}
	return shares, nil
}

func purposeOf(sample *profile.Sample, known map[string]string) string {
	for _, location := range sample.Location { // the innermost function comes first
		for _, line := range location.Line {
			name := line.Function.Name
			purpose, seen := known[name]
			if !seen {
				purpose = purposeOfFunction(name)
				known[name] = purpose
			}
			if purpose != "" {
				return purpose
			}
		}
	}
	return Else
}

func purposeOfFunction(name string) string {
	for _, r := range rules {
		if r.functions.MatchString(name) {
			return r.purpose
		}
	}
	return ""
}
