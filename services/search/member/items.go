// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/time/rate"
)

// readAhead is how much is read at once, and so may be kept of what follows an item.
const readAhead = 32 << 10

// keptBuffer is the largest item for which the buffer of a decoder is no larger than twice a tiny object: it grows when it is full to three
// quarters.
const keptBuffer = 2 * tinyObject * 3 / 4

// item is an object of a list, or an event of a watch.
type item struct {
	// text is valid until the next item is read.
	text jsontext.Value
	// release gives memory back once the item is in the database. It is nil for small items.
	release func()
	// slot is given back once a batch has memory for the item. It is nil for tiny items, and for large ones.
	slot *objectSlot
}

func (i *item) done() {
	i.left()
	if i.release != nil {
		i.release()
	}
}

// left is called when a batch has memory for the item. It may be called again.
func (i *item) left() {
	if i.slot != nil {
		i.slot.leave()
	}
}

// maxBlanks is how many blanks may be between two items. More are part of the next one.
const maxBlanks = 1 << 10

// items reads the items of an answer one by one, within the limits.
type items struct {
	*meter
	json *jsontext.Decoder
	// kept is what the decoder before this one had read, and this one has not.
	kept bytes.Buffer
}

// newItems reads a body. end ends its request.
func newItems(ctx context.Context, limiter *memberLimiter, body io.Reader, end context.CancelCauseFunc) *items {
	ctx, cancel := context.WithCancelCause(ctx)
	m := &meter{ctx: ctx, limiter: limiter, from: body, rate: limiter.rate}
	m.end = func(why error) {
		cancel(why)
		if end != nil {
			end(why)
		}
	}
	m.slow = newClock(limiter.Timeout, func() {
		m.end(&LimitError{
			Limit: limitTime, Flag: "member-timeout",
			Message: fmt.Sprintf("the answer stands still, or an object takes longer than %s", limiter.Timeout),
		})
	})
	return &items{meter: m, json: jsontext.NewDecoder(m, asSent)}
}

// object calls a function for each field of an object. It has to read the value.
func (i *items) object(field func(name string) error) error {
	if err := i.expect('{'); err != nil {
		return err
	}
	for i.json.PeekKind() != '}' {
		name, err := i.json.ReadToken()
		if err != nil {
			return err
		}
		if err := field(name.String()); err != nil {
			return err
		}
	}
	return i.expect('}')
}

// array calls a function for each element of an array, or of null. It has to read the element.
func (i *items) array(element func() error) error {
	if i.json.PeekKind() == 'n' {
		return i.skip()
	}
	if err := i.expect('['); err != nil {
		return err
	}
	for i.json.PeekKind() != ']' {
		if err := element(); err != nil {
			return err
		}
	}
	return i.expect(']')
}

func (i *items) expect(kind jsontext.Kind) error {
	token, err := i.json.ReadToken()
	if err == nil && token.Kind() != kind {
		err = fmt.Errorf("%s where %s was expected", token.Kind(), kind)
	}
	return err
}

// skip reads a value that is no item. It takes a slot like one: a member could send such values without an end.
func (i *items) skip() error {
	if err := i.admit(); err != nil {
		return err
	}
	err := i.working(i.json.SkipValue)
	i.close()
	i.begin(0) // what follows has to come in time, too
	return err
}

// admit begins an item when the member may send more.
func (i *items) admit() error {
	if i.permit != nil {
		return limited("object-size", "", "there are more than %d blanks before an object", smallObject)
	}
	if err := i.rate.Wait(i.ctx); err != nil {
		return cmp.Or(context.Cause(i.ctx), err)
	}
	i.begin(i.beginning())
	i.paid(changeSize)
	return nil
}

// beginning returns how much was read of what comes next. API servers end each event with a line break, which is nothing of the next one.
func (i *items) beginning() int {
	buffered, kept := i.json.UnreadBuffer(), i.kept.Bytes()
	if all := len(buffered) + len(kept); all > maxBlanks {
		return all
	}
	if buffered = withoutBlanks(buffered); len(buffered) == 0 {
		kept = withoutBlanks(kept)
	}
	return len(buffered) + len(kept)
}

func withoutBlanks(text []byte) []byte { return bytes.TrimLeft(text, " \t\r\n") }

// next reads an item when the member may send more, and passes it on.
func (i *items) next(to func(item) error) error {
	if err := i.admit(); err != nil {
		return err
	}
	var text jsontext.Value
	err := i.working(func() (err error) {
		text, err = i.json.ReadValue()
		return err
	})
	if err != nil {
		return err
	}
	if err := i.check(int64(len(text))); err != nil {
		return err
	}
	read := i.finish()
	read.text = text
	i.caughtUp()
	err = to(read)
	if len(text) > keptBuffer && i.json.StackDepth() != 1 { // the metadata of a list are its only large field
		i.shrink()
	}
	i.begin(0)
	return err
}

// shrink gives the buffer of a large item back, with a decoder that is at the same slot: between two events, or in the array of a list. It
// reads nothing of the member: an array of a text is complete without what follows, unlike that of a number.
func (i *items) shrink() {
	kept := slices.Concat(i.json.UnreadBuffer(), i.kept.Bytes())
	i.kept = *bytes.NewBuffer(kept)
	rest := io.MultiReader(&i.kept, i.meter)
	if i.json.StackDepth() == 0 {
		i.json = jsontext.NewDecoder(rest, asSent)
		return
	}
	i.json = jsontext.NewDecoder(io.MultiReader(strings.NewReader(`{"":[""`), rest), asSent)
	for range 4 {
		i.json.ReadToken() //nolint:errcheck // they are above
	}
}

// caughtUp notes if an item is the last of all that has come.
func (i *items) caughtUp() {
	if i.drained && len(withoutBlanks(i.json.UnreadBuffer())) == 0 && len(withoutBlanks(i.kept.Bytes())) == 0 {
		i.syncedAt = i.came
	}
}

// meter counts the bytes of an item as they come. Those of the next one may be among them.
type meter struct {
	ctx     context.Context // that of the stream
	limiter *memberLimiter
	from    io.Reader
	// rate is that at which the member may send items.
	rate *rate.Limiter
	// quiet is set for watches, in which nothing needs to come between two items.
	quiet bool
	// slow is the time for an item.
	slow *clock
	// begun is set when an item has to end in time.
	begun bool
	count int64
	// permit is not nil if the item is large, and end ends the request.
	permit *permit
	end    context.CancelCauseFunc
	// slot is that of an item which is not tiny, until it has a permit. decides is set for objects that decide what readers see: they need no
	// slots. group is the API group of others.
	slot    *objectSlot
	decides bool
	group   string
	// unpaid are bytes that were read and count for nothing yet.
	unpaid int
	// follows is the watch that the items are of, or nil. busy is set in it while there may be more to read. awaits is set in a read that may
	// take any time.
	follows      *following
	mu           sync.Mutex
	busy, awaits bool
	// drained is set if the last read has taken all that had come by then, which was at came. syncedAt is up to when all was read that had
	// come, or zero.
	drained        bool
	came, syncedAt time.Time
	// works is set while the reader has a slot of the processors.
	works bool
}

// working reads something in a slot, but waits for the member without one.
func (m *meter) working(read func() error) error {
	if err := m.work(); err != nil {
		return err
	}
	defer m.rest()
	return read()
}

func (m *meter) work() error {
	err := m.limiter.work(m.ctx)
	m.works = err == nil
	return err
}

func (m *meter) rest() {
	if m.works {
		m.works = false
		m.limiter.rest()
	}
}

// paid counts bytes as part of what was admitted.
func (m *meter) paid(n int) { m.unpaid = max(m.unpaid-n, 0) }

// pay has the member pay for all that it has sent beside what was admitted, whatever it is: the next item waits for that. Some of it may be
// of that item.
func (m *meter) pay() {
	if changes := (m.unpaid - readAhead) / changeSize; changes > 0 {
		m.unpaid -= changes * changeSize
		charge(m.rate, changes)
	}
}

// begin begins an item of which some bytes were read.
func (m *meter) begin(read int) {
	m.count = int64(read)
	m.slow.set(m.limiter.Timeout)
	m.begun = !m.quiet || read > 0
}

// setBusy says whether there may be more to read: some of an item, or something that has come while search did something else.
func (m *meter) setBusy(busy bool) {
	if m.follows == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.awaits = false
	m.nowBusy(busy)
}

func (m *meter) nowBusy(busy bool) {
	if m.busy == busy {
		return
	}
	if m.busy = busy; busy {
		m.follows.count(1)
	} else {
		m.follows.count(-1)
	}
}

// quietAfter is how long nothing comes until all has come: what has come before a read is there at once.
const quietAfter = 10 * time.Millisecond

// awaitQuietly reads what may come at any time.
func (m *meter) awaitQuietly(into []byte) (int, error) {
	if m.follows == nil {
		return m.from.Read(into)
	}
	m.mu.Lock()
	m.awaits = true
	m.mu.Unlock()
	defer time.AfterFunc(quietAfter, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.awaits {
			m.nowBusy(false)
		}
	}).Stop()
	n, err := m.from.Read(into)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.awaits = false
	return n, err
}

// finish ends an item. The caller has to call done.
func (m *meter) finish() (read item) {
	if read.slot, m.slot = m.slot, nil; read.slot != nil {
		read.slot.isRead()
	}
	if m.permit != nil {
		m.permit.complete()
		read.release, m.permit = m.permit.release, nil
	}
	return read
}

func (m *meter) close() {
	m.setBusy(false)
	read := m.finish()
	read.done()
}

// over ends reading.
func (m *meter) over() {
	m.close()
	m.end(nil)
}

// Read implements io.Reader.
func (m *meter) Read(into []byte) (int, error) {
	if !m.works {
		return m.read(into)
	}
	m.rest()
	n, err := m.read(into)
	if failed := m.work(); failed != nil {
		return 0, failed
	}
	return n, err
}

func (m *meter) read(into []byte) (int, error) {
	n, err := m.await(into[:min(len(into), readAhead)])
	m.count += int64(n)
	m.unpaid += n
	m.pay()
	if failed := m.makeRoom(); failed != nil {
		return 0, failed
	}
	if failed := m.check(m.count - int64(n)); failed != nil {
		return 0, failed
	}
	return n, err
}

// makeRoom waits for a slot if the item is not tiny, and for a permit if it is large.
func (m *meter) makeRoom() (err error) {
	if m.permit != nil {
		return nil
	}
	if m.count > tinyObject && m.slot == nil && !m.decides {
		if m.slot, err = m.limiter.slot(m.ctx, m.group, func() { m.slow.hurry(m.limiter.waitTimeout) }); err != nil {
			return err
		}
	}
	if m.count <= smallObject {
		return nil
	}
	if m.slot != nil {
		m.slot.park(func() {
			m.end(limited(limitTime, "", "too many large objects of the cluster come at once"))
		})
	}
	if m.permit, err = m.limiter.holdLarge(m.ctx, m.end); err != nil {
		return err
	}
	if m.slot != nil {
		m.slot.leave()
		m.slot = nil
	}
	m.slow.set(m.limiter.Timeout) // its pace counts
	return nil
}

// await waits for what the member sends. Only that takes the member's time.
func (m *meter) await(into []byte) (int, error) {
	var n int
	var err error
	m.permit.awaits()
	if m.begun {
		m.slow.wait(func() { n, err = m.from.Read(into) })
	} else {
		n, err = m.awaitQuietly(into)
	}
	m.permit.came(n)
	m.came, m.drained = time.Now(), n < len(into)
	if !m.begun && (len(withoutBlanks(into[:n])) > 0 || m.count+int64(n) > maxBlanks) {
		m.begun = true
	}
	if m.begun {
		m.setBusy(true)
	}
	return n, err
}

// check refuses an item that is too large.
func (m *meter) check(size int64) error {
	if size <= m.limiter.ObjectSize.Value() {
		return nil
	}
	return limited("object-size", "member-max-object-size", "an object has more than %s", &m.limiter.ObjectSize)
}
