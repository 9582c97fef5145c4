// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package gcpace

import (
	"runtime"
	"runtime/debug"
	"testing"
	"testing/fstest"
	"time"
)

const mebi = 1 << 20

func TestPace(t *testing.T) {
	type collection struct {
		since  time.Duration
		live   uint64
		want   int
		change bool
	}
	for name, collections := range map[string][]collection{
		"idle":                        {{time.Minute, 30 * mebi, 100, false}, {2 * time.Minute, 30 * mebi, 100, false}},
		"neither idle nor busy":       {{5 * time.Second, 30 * mebi, 100, false}},
		"busy and small":              {{time.Second, 30 * mebi, 400, true}, {4 * time.Second, 30 * mebi, 400, false}},
		"idle again":                  {{time.Second, 30 * mebi, 400, true}, {time.Minute, 30 * mebi, 100, true}},
		"busy and of some size":       {{time.Second, 128 * mebi, 200, true}},
		"busy and large":              {{time.Second, 320 * mebi, 80, true}},
		"busy and very large":         {{time.Second, 1024 * mebi, 50, true}},
		"idle and very large":         {{time.Minute, 1024 * mebi, 50, true}, {time.Minute, 1024 * mebi, 50, false}},
		"growing under load":          {{time.Second, 128 * mebi, 200, true}, {time.Second, 256 * mebi, 100, true}},
		"small changes are not worth": {{time.Second, 128 * mebi, 200, true}, {time.Second, 132 * mebi, 200, false}},
	} {
		t.Run(name, func(t *testing.T) {
			p := pace{percent: usual, room: Room}
			for i, c := range collections {
				got, change := p.next(c.since, c.live)
				if got != c.want || change != c.change {
					t.Errorf("after collection %d: %d%%, change %v; want %d%%, %v", i, got, change, c.want, c.change)
				}
			}
		})
	}
}

func TestAServiceThatStartsIsNotBusy(t *testing.T) {
	start := time.Now()
	for _, test := range []struct {
		running, since, want time.Duration
	}{
		{time.Second, time.Millisecond, busy},
		{starting, time.Second, busy},
		{starting, 10 * time.Second, 10 * time.Second},
		{starting + time.Second, time.Second, time.Second},
	} {
		now := start.Add(test.running)
		if got := sinceLast(now, now.Add(-test.since), start); got != test.want {
			t.Errorf("%v after the start and %v after a collection: %v, want %v", test.running, test.since, got, test.want)
		}
	}
	p := pace{percent: usual, room: Room}
	if percent, change := p.next(busy, 30*mebi); percent != usual || change {
		t.Errorf("got %d%%, change %v", percent, change)
	}
}

func TestCollectionsAreSeen(t *testing.T) {
	done := collected()
	select {
	case <-done:
	default:
		runtime.GC()
		<-done
	}
	if live, _ := memory(); live == 0 {
		t.Error("nothing is in use")
	}
}

func TestWhatAnIdleServiceDoesNotUseIsGivenBack(t *testing.T) {
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // nothing else collects
	makeGarbage(256 * mebi)
	if live, unused := memory(); !isWorthwhile(live, unused) {
		t.Fatalf("%d bytes in use and %d that are not are nothing to give back", live, unused)
	}
	go run(t.Context(), Room, time.Millisecond)
	// The runtime reports a collection, but not the memory that it gives back after it.
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		live, unused := memory()
		if !isWorthwhile(live, unused) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes in use and %d that are not", live, unused)
		}
	}
}

func TestMemoryBetweenLiveObjectsIsCollectedForOnce(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // nothing else collects
	live := makeGaps(512 * mebi)
	var g giver
	if !g.giveBack() {
		t.Fatal("no memory was given back although most was garbage")
	}
	if live, unused := memory(); !isWorthwhile(live, unused) {
		t.Fatalf("%d bytes in use have only %d unused bytes between them", live, unused)
	}
	if g.giveBack() {
		t.Error("the same memory was collected for again")
	}
	makeGarbage(256 * mebi)
	if !g.giveBack() {
		t.Error("new garbage was not given back")
	}
	runtime.KeepAlive(live)
}

// makeGaps returns one object of each page of a heap of this size. The rest of each page is garbage, which the heap cannot give back.
func makeGaps(size int) [][]byte {
	const object, page = 1 << 10, 8 << 10
	var kept [][]byte
	for i := range size / object {
		if one := make([]byte, object); i%(page/object) == 0 {
			kept = append(kept, one)
		}
	}
	return kept
}

// makeGarbage has the heap take so many bytes for nothing.
func makeGarbage(size int) { runtime.KeepAlive(make([]byte, size)) }

func TestContainerLimit(t *testing.T) {
	file := func(content string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(content)} }
	for name, test := range map[string]struct {
		groups fstest.MapFS
		want   int64
	}{
		"no control groups":       {},
		"version 2":               {fstest.MapFS{"memory.max": file("536870912\n")}, 512 * mebi},
		"version 2, no limit":     {fstest.MapFS{"memory.max": file("max\n")}, 0},
		"version 1":               {fstest.MapFS{"memory/memory.limit_in_bytes": file("536870912\n")}, 512 * mebi},
		"version 1, no limit":     {fstest.MapFS{"memory/memory.limit_in_bytes": file("9223372036854771712\n")}, 0},
		"something else":          {fstest.MapFS{"memory.max": file("?")}, 0},
		"no memory may be used":   {fstest.MapFS{"memory.max": file("0\n")}, 0},
		"the first that is there": {fstest.MapFS{"memory.max": file("1024\n"), "memory/memory.limit_in_bytes": file("2048\n")}, 1024},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := containerLimit(test.groups)
			if ok != (test.want != 0) || (ok && got != test.want) {
				t.Errorf("got %d, %v; want %d", got, ok, test.want)
			}
		})
	}
}
