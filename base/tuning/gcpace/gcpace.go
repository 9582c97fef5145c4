// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gcpace lets the garbage collector run less often while a service is busy. The service uses more memory meanwhile, and gives it
// back when it is idle.
//
// With GOGC=100, a service whose objects take 30 MiB collects garbage after each 30 MiB that it allocates. Under load that happens several
// times a second, and takes 10 to 20 % of the processor time of a small request. So the pace depends on the load:
//
//   - While collections follow each other closely, the heap may grow by Room, or by a sixteenth of the container's limit if that is less.
//     It may grow to at most five times what it holds.
//   - Otherwise GOGC is 100. If the heap would then grow by more than Room, GOGC is lower, down to 50: a service that holds thousands of
//     definitions need not hold them twice.
//   - After a while without a collection, the service gives all unused memory back. What stays between live objects is no reason to do it
//     again.
//   - While a service starts, it does not count as busy. The peak of core is then a tenth to a sixth lower: 289 and 301 MB resident in two
//     starts of the drop-in, instead of 330 and 359. Each start took core 2.8 to 2.9 s of processor time, instead of 2.75 s.
//
// $GOGC replaces all this. The memory limit is $GOMEMLIMIT or, without it, nine tenths of the container's limit.
//
// Measured on 2026-11-22 on a machine with two CPUs, alone and beside a neighbour that keeps caches and memory busy:
//
//   - With GOGC=100, a LIST of 500 ConfigMaps takes 15 % more processor time, and 24 % more beside the neighbour; a GET takes about a fifth
//     more.
//     With GOGC=200, both take the same as with this package, within noise. No command repeats these figures: a driver that is not in the
//     repository set each in turns for 0.8 s, 6 times, with 16 clients. To compare the same settings:
//
//     make bench BENCH_ARGS='-sides "" -variant pace=bin -variant 100=bin -variant-env 100=GOGC=100 -variant 200=bin -variant-env \
//     200=GOGC=200 -neighbour both -rounds 5 -profile 0 -run "(GET|LIST-500-JSON-RV=0)/ConfigMaps/certificates"'
//
//   - With 300 CRDs, all services together take 959 MB, with GOGC=100 1,236 MB, and with GOGC=200 1,998 MB:
//
//     make bench BENCH_ARGS='-sides "" -variant pace=bin -variant 100=bin -variant-env 100=GOGC=100 -variant 200=bin -variant-env \
//     200=GOGC=200 -crd-count 300 -profile 0 -run CRDs'
package gcpace

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"k8s.io/klog/v2"
)

const (
	// Room is how many bytes the heap of a busy service may grow before a collection.
	Room = 256 << 20

	// A service is busy while collections come less than busy after each other, and no longer busy after quiet without a collection.
	busy  = 2 * time.Second
	quiet = 15 * time.Second
	// starting is how long a service starts. The garbage of that time would lie between objects that stay for ever. With 20 s instead, the
	// peak of core is the same (257 to 260 MB instead of 255 to 265), and a GET in the first half minute takes up to a tenth more processor
	// time.
	starting = 6 * time.Second

	least = 50
	usual = 100
	most  = 400

	// spare is the most unused memory, in bytes, that a service keeps: less is not worth a collection.
	spare = 16 << 20
)

// Start sets the pace until the context ends. It returns at once.
func Start(ctx context.Context) {
	room := uint64(Room)
	if limit, ok := containerLimit(os.DirFS("/sys/fs/cgroup")); ok {
		room = min(room, uint64(limit)/16)
		if _, set := os.LookupEnv(limitVariable); !set {
			debug.SetMemoryLimit(limit / 10 * 9)
			klog.InfoS("Memory is limited by the container", "bytes", limit, limitVariable, limit/10*9)
		}
	}
	if _, set := os.LookupEnv("GOGC"); set {
		return
	}
	go run(ctx, room, quiet)
}

// limitVariable is the environment variable with the limit of memory.
const limitVariable = "GOMEMLIMIT"

// Share makes processes that this one starts ignore the memory limit of the container, which they share.
func Share() error {
	if _, set := os.LookupEnv(limitVariable); set {
		return nil
	}
	return os.Setenv(limitVariable, "off")
}

// run sets the pace after each collection, and gives memory back after some time without one.
func run(ctx context.Context, room uint64, some time.Duration) {
	p := pace{percent: usual, room: room}
	var g giver
	started := time.Now()
	last := started
	idle := time.NewTimer(some)
	defer idle.Stop()
	for collection := collected(); ; {
		select {
		case <-ctx.Done():
			return
		case <-idle.C:
			g.giveBack()
		case <-collection:
			collection = collected()
			now := time.Now()
			live, _ := memory()
			if percent, change := p.next(sinceLast(now, last, started), live); change {
				debug.SetGCPercent(percent)
			}
			last = now
		}
		idle.Reset(some)
	}
}

// sinceLast returns the time since the last collection. While a service starts, it is never so short that the service counts as busy.
func sinceLast(now, last, started time.Time) time.Duration {
	if since := now.Sub(last); now.Sub(started) > starting || since > busy {
		return since
	}
	return busy
}

// giver gives unused memory back to the system. The heap keeps the memory between live objects, which may be more than isWorthwhile allows.
// Without kept, an idle service would collect garbage again and again for it.
type giver struct {
	// kept is how many bytes stayed unused after memory was given back.
	kept uint64
}

// giveBack gives memory back if enough is unused, and more than last time. It reports whether it did so.
func (g *giver) giveBack() bool {
	live, unused := memory()
	g.kept = min(g.kept, unused)
	if !isWorthwhile(live, unused) || unused <= g.kept+spare {
		return false
	}
	debug.FreeOSMemory() // which collects first
	_, g.kept = memory()
	return true
}

// isWorthwhile reports whether enough memory is unused to give it back.
func isWorthwhile(live, unused uint64) bool { return unused > spare+live/2 }

// collected returns a channel that is closed after the next collection.
func collected() <-chan struct{} {
	done := make(chan struct{})
	runtime.AddCleanup(&sentinel{}, func(done chan struct{}) { close(done) }, done)
	return done
}

// sentinel is garbage. It has a pointer, because the runtime puts objects without pointers beside others that live on.
type sentinel struct{ _ *int }

// memory returns how many bytes were in use at the last collection, and how many more the heap takes.
func memory() (live, unused uint64) {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	for i, sample := range samples {
		switch {
		case sample.Value.Kind() != metrics.KindUint64:
			return 0, 0
		case i == 0:
			live = sample.Value.Uint64()
		default:
			unused += sample.Value.Uint64()
		}
	}
	return live, unused - min(live, unused)
}

// pace is how far the heap may grow: percent of what is in use, and bytes at most.
type pace struct {
	percent int
	room    uint64
}

// next returns the percentage after a collection, and whether to set it: setting it stops the program for a moment. since is the time since
// the collection before.
func (p *pace) next(since time.Duration, live uint64) (percent int, change bool) {
	next := p.percent
	switch {
	case since < busy:
		next = most
	case since > quiet:
		next = usual
	}
	if live > 0 {
		floor := min(usual, max(least, int(Room*100/live)))
		next = max(floor, min(next, int(p.room*100/live)))
	}
	if difference := next - p.percent; next != usual && difference*10 > -p.percent && difference*10 < p.percent {
		return p.percent, false
	}
	change = next != p.percent
	p.percent = next
	return next, change
}
