// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
)

// asked is a factory that counts how often it is asked.
type asked struct {
	informers.SharedInformerFactory

	times  int
	synced bool
}

func (a *asked) WaitForCacheSync(<-chan struct{}) map[reflect.Type]bool {
	a.times++
	return map[reflect.Type]bool{reflect.TypeFor[corev1.Pod](): true, reflect.TypeFor[corev1.Service](): a.synced}
}

func TestInformersAreAskedUntilTheyAreSettled(t *testing.T) {
	below := &asked{}
	f := NewInformers(below)
	check := func(what string, times int, synced bool) {
		t.Helper()
		if got := f.WaitForCacheSync(nil)[reflect.TypeFor[corev1.Service]()]; got != synced || below.times != times {
			t.Errorf("%s: in sync %t, asked %d times, want %t, %d", what, got, below.times, synced, times)
		}
	}
	check("at first", 1, false)
	f.Settle()
	check("settled too early", 3, false)
	below.synced = true
	check("in sync", 4, true)
	f.Settle()
	check("settled", 5, true)
	check("settled", 5, true)
}
