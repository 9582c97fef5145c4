// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/services/search/store/access"
	"github.com/tripod-k8s/tripod/services/search/store/storetest"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// filled returns a text with as much of a part as an object may have bytes.
func filled(begin, part, end string) []byte {
	return []byte(begin + strings.Repeat(part+",", (9<<20)/(len(part)+1)) + part + end)
}

// TestManyPartsTakeLittleMemory has answers of small parts, which are many times larger once they are decoded.
func TestManyPartsTakeLittleMemory(t *testing.T) {
	const most = 100 << 20
	client := newMember(t, &rest.Config{Host: "http://127.0.0.1:1"}, nil).client
	object := func(text []byte) error {
		_, err := NewObject("east", kindOfConfigMaps, text)
		return err
	}
	document := func(read func(*definitions) error) func([]byte) error {
		return func(text []byte) error {
			return read(&definitions{client: client, single: always(text)})
		}
	}
	const metadata = `{"metadata":{"name":"a","namespace":"default"`
	for name, test := range map[string]struct {
		text []byte
		read func([]byte) error
	}{
		"owners":       {filled(metadata+`,"ownerReferences":[`, `{}`, `]}}`), object},
		"no owners":    {filled(metadata+`,"ownerReferences":[`, `null`, `]}}`), object},
		"owners alone": {filled(metadata+`,"ownerReferences":[`, `{}`, `]}}`)[:maxValues], object},
		"objects":      {filled(metadata+`},"x":0.5,"y":[`, `{}`, `]}`), object},
		"finalizers":   {filled(metadata+`,"finalizers":[`, `""`, `]}}`), object},
		"definitions":  {filled(`{"items":[`, `{}`, `]}`), document(func(d *definitions) error { _, err := d.metadata(t.Context(), nil); return err })},
		"columns": {filled(`{"items":[{"spec":{"versions":[{"additionalPrinterColumns":[`, `{}`, `]}]}}]}`),
			document(func(d *definitions) error { _, err := d.columnsOf(t.Context(), "a"); return err })},
		"causes": {filled(`{"type":"ERROR","object":{"details":{"causes":[`, `{}`, `]}}}`),
			func(text []byte) error { return (&event{item: item{text: text}}).decode() }},
		"annotations": {[]byte(metadata + `,"annotations":{` + labels(500_000) + `}}}`), func(text []byte) error { _, err := readBookmark(text); return err }},
	} {
		var err error
		assert.Less(t, storetest.Allocated(func() { err = test.read(test.text) }), uint64(most), name)
		assert.True(t, isLimit(err) || isRefused(err), "%s: %v", name, err)
	}
}

// always answers all requests with a text.
func always(text []byte) func(context.Context, *rest.Request, func([]byte) error) error {
	return answeredBy(func(*rest.Request) []byte { return text })
}

// answeredBy answers requests with what a function returns.
func answeredBy(answer func(*rest.Request) []byte) func(context.Context, *rest.Request, func([]byte) error) error {
	return func(_ context.Context, request *rest.Request, use func([]byte) error) error {
		return use(answer(request))
	}
}

func TestColumnsOfADefinition(t *testing.T) {
	client := newMember(t, &rest.Config{Host: "http://127.0.0.1:1"}, nil).client
	d := &definitions{client: client, single: answeredBy(func(request *rest.Request) []byte {
		switch query := request.URL().Query(); {
		case query.Get("fieldSelector") == "metadata.name=things.example.com":
			return []byte(`{"items":[{"spec":{"versions":[{"name":"v1","additionalPrinterColumns":[
				{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"},
				{"name":"N","type":"integer","format":"int32","description":"n","priority":1,"jsonPath":".n"}]}]}}]}`)
		case query.Get("continue") == "":
			return []byte(`{"metadata":{"continue":"c"},"items":[{"metadata":{"name":"others.example.com","uid":"u","resourceVersion":"1"}}]}`)
		}
		return []byte(`{"metadata":{},"items":[{"metadata":{"name":"things.example.com","uid":"v","resourceVersion":"2"}}]}`)
	})}
	kinds := []streams.Kind{{GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}, Name: "Thing"}}
	require.NoError(t, d.describe(t.Context(), kinds))
	assert.Equal(t, `[{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"},`+
		`{"name":"N","type":"integer","format":"int32","description":"n","priority":1,"jsonPath":".n"}]`, string(kinds[0].Columns))
	assert.Equal(t, map[string]string{"things.example.com": "v/2"}, d.versions)
}

// TestLittleIsKeptOfDefinitions holds that neither definitions of other resources nor many versions of one take memory for long.
func TestLittleIsKeptOfDefinitions(t *testing.T) {
	version := func(n int) string {
		return fmt.Sprintf(`{"name":"v%d","additionalPrinterColumns":[{"name":%q}]}`, n, strings.Repeat("x", maxColumnsSize/4))
	}
	answer := `{"items":[{"metadata":{"name":"a"},"spec":{"versions":[` + version(1) + "," + version(2) + "," + version(3) + "," + version(4) + `]}},
		{"metadata":{"name":"b","resourceVersion":"1"}},{"metadata":{"name":"c","resourceVersion":"` + strings.Repeat("1", maxVersion+1) + `"}}]}`
	d := &definitions{
		client: newMember(t, &rest.Config{Host: "http://127.0.0.1:1"}, nil).client,
		single: always([]byte(answer)),
	}
	versions, err := d.metadata(t.Context(), map[string]bool{"a": true, "c": true})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"a": "/"}, versions)
	columns, err := d.columnsOf(t.Context(), "a")
	require.NoError(t, err)
	assert.Len(t, columns, 3)
}

// TestColumnsOfAMemberHaveALimit has definitions whose columns are more together than a member may have. When others go, there is room.
func TestColumnsOfAMemberHaveALimit(t *testing.T) {
	const each = maxColumnsSize / 2
	d := &definitions{client: newMember(t, &rest.Config{Host: "http://127.0.0.1:1"}, nil).client}
	var names []string
	for i := range maxColumnsOfMember/each + 5 {
		names = append(names, fmt.Sprintf("d%03d.example.com", i))
	}
	d.single = answeredBy(func(request *rest.Request) []byte {
		if request.URL().Query().Get("fieldSelector") != "" {
			return fmt.Appendf(nil, `{"items":[{"spec":{"versions":[{"name":"v1","additionalPrinterColumns":[{"name":%q}]}]}}]}`, strings.Repeat("x", each))
		}
		var items []string
		for _, name := range names {
			items = append(items, fmt.Sprintf(`{"metadata":{"name":%q,"uid":"u","resourceVersion":"1"}}`, name))
		}
		return []byte(`{"metadata":{},"items":[` + strings.Join(items, ",") + `]}`)
	})
	read := func() (size int) {
		t.Helper()
		var kinds []streams.Kind
		for _, name := range names {
			resource, group, _ := strings.Cut(name, ".")
			kinds = append(kinds, streams.Kind{GroupVersionResource: schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}})
		}
		d.next = time.Time{}
		require.NoError(t, d.describe(t.Context(), kinds))
		for i, kind := range kinds {
			assert.Equal(t, i < maxColumnsOfMember/each-1, len(kind.Columns) > 0, kind.Resource)
			size += len(kind.Columns)
		}
		return size
	}
	assert.LessOrEqual(t, read(), maxColumnsOfMember)
	names = names[10:]
	assert.LessOrEqual(t, read(), maxColumnsOfMember)
}

// TestNewResourcesHaveALimit has a member whose discovery shows other resources each time, and which begins anew, as with each change of
// its PediaCluster.
func TestNewResourcesHaveALimit(t *testing.T) {
	f, s := newFakeMember(t), newStore(t)
	shared := Dependencies{Store: s, Limiter: newLimiter(t, func(l *Limits) { l.Resources = 2 })}
	begin := func(name string) *Member {
		m, err := New(name, &rest.Config{Host: f.URL}, Everything, shared)
		require.NoError(t, err)
		t.Cleanup(m.stop)
		return m
	}
	adjust := func(m *Member, resources ...string) {
		f.do(func() { f.resources = resources })
		kinds, missing, err := m.discover(t.Context())
		require.NoError(t, err)
		m.adjust(t.Context(), kinds, missing)
	}
	m := begin("east")
	for i := range 5 {
		adjust(m, fmt.Sprint("things", 2*i), fmt.Sprint("things", 2*i+1))
	}
	assert.Len(t, m.limiter.had, 4)
	health, _ := m.Status()
	assert.Contains(t, health.Limit, "more than 4 resources")
	dials := m.limiter.dials
	m.stop()
	m = begin("east")
	assert.Same(t, dials, m.limiter.dials, "connections count on")
	adjust(m, "things8")
	assert.Empty(t, m.running())
	adjust(m, "things0")
	assert.Len(t, m.running(), 1, "it is known")
	m.stop()
	shared.Limiter.Forget("east")
	m = begin("east")
	adjust(m, "things0")
	assert.Empty(t, m.running(), "a member of the name of one that is gone")
	other := begin("west")
	adjust(other, "things8")
	assert.Len(t, other.running(), 1, "another member")
}

// TestTheLogHasFewLinesAboutRefusedObjects counts them.
func TestTheLogHasFewLinesAboutRefusedObjects(t *testing.T) {
	var r refusals
	lines, others := 0, -1
	for range 1000 {
		r.log(func(n int) { lines, others = lines+1, n })
	}
	assert.Equal(t, []int{1, 0}, []int{lines, others})
	r.last = r.last.Add(-time.Minute)
	r.log(func(n int) { lines, others = lines+1, n })
	assert.Equal(t, []int{2, 999}, []int{lines, others})
}

// TestRowsOfAnObjectCount has labels and owners count as changes, because each is a row.
func TestRowsOfAnObjectCount(t *testing.T) {
	for kind, rows := range map[*streams.Kind]int{&kindOfConfigMaps: changeRows, &kindOfRoleBindings: rowsOfRights} {
		limiter := newLimiter(t, func(l *Limits) { l.Changes = 1 }).forMember()
		s := newStream("east", *kind, source{limiter: limiter, resource: kind.GroupVersionResource}, newStore(t))
		before := s.limiter.rate.Tokens()
		text := `{"metadata":{"name":"a","namespace":"default","labels":{` + labels(maxReferences) + `}}}`
		want := maxReferences / rows
		if s.decidesRights() { // the reader of events counts a part of what is written
			want = rightsRate*want + (rightsRate-1)*(1+len(text)/changeSize)
		}
		_, _, err := s.change([]byte(text), changedObject)
		require.NoError(t, err)
		assert.InDelta(t, want, before-s.limiter.rate.Tokens(), 5, kind.Resource)
	}
}

// TestDocumentsOfDiscoveryCountTogether has 50 documents of 300 kB, each with as many resources as all of them may have together.
func TestDocumentsOfDiscoveryCountTogether(t *testing.T) {
	resources := `"resources":[{}` + strings.Repeat(",{}", discoveryObjects-10) + `]}`
	m := hostile(t, func(l *Limits) { *l = Standard(); l.Allow = []string{allowHTTP, allowLoopback} }, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch req.URL.Path {
		case "/version":
			fmt.Fprint(w, `{}`)
		case "/api":
			fmt.Fprint(w, `{"kind":"APIVersions","versions":[]}`)
		case "/apis":
			var groups []string
			for n := range 50 {
				groups = append(groups, fmt.Sprintf(`{"name":"g%d.io","versions":[{"groupVersion":"g%[1]d.io/v1","version":"v1"}]}`, n))
			}
			fmt.Fprintf(w, `{"kind":"APIGroupList","groups":[%s]}`, strings.Join(groups, ","))
		default:
			fmt.Fprintf(w, `{"kind":"APIResourceList","groupVersion":%q,`, strings.TrimPrefix(req.URL.Path, "/apis/"))
			io.WriteString(w, resources) //nolint:errcheck // the client is gone
		}
	})
	var err error
	assert.Less(t, storetest.Allocated(func() { _, _, err = m.discover(t.Context()) }), uint64(200<<20))
	var limit *LimitError
	require.ErrorAs(t, err, &limit)
	assert.Equal(t, "document-size", limit.Limit)
	assert.Zero(t, m.limiter.large.count(), "its memory is free again")
}

// TestWhateverAMemberSendsCounts has fields around the objects of a list, and the bytes of objects, count as changes.
func TestWhateverAMemberSendsCounts(t *testing.T) {
	for name, test := range map[string]struct {
		text    string
		changes int
	}{
		"fields":       {`{` + strings.Repeat(`"a":1,`, 100) + `"b":1}`, 101},
		"a long field": {`{"a":"` + strings.Repeat("x", 100*changeSize) + `"}`, 100},
		"blanks":       {`{"items":[` + strings.Repeat(" ", 100*changeSize) + `]}`, 100},
		"an object":    {`{"items":[{"a":"` + strings.Repeat("x", 100*changeSize) + `"}]}`, 100},
		"objects":      {`{"items":[{}` + strings.Repeat(`,{"a":1}`, 99) + `]}`, 100},
	} {
		m := hostile(t, func(l *Limits) { l.Changes = 1 }, func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, test.text) //nolint:errcheck // the client is gone
		})
		m.limiter.rate.SetLimit(0)
		before := m.limiter.rate.Tokens()
		require.NoError(t, readAll(t.Context(), m.source(), "list"), name)
		counted := before - m.limiter.rate.Tokens()
		assert.InDelta(t, test.changes, counted, float64(2*readAhead/changeSize), name)
	}
}

// TestACheckReadsLittle has a member whose answer does not end.
func TestACheckReadsLittle(t *testing.T) {
	m := hostile(t, nil, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		endless(gzip.NewWriter(w), strings.Repeat(" ", 1<<20))
	})
	require.NoError(t, m.source().ask(t.Context()), "the member has answered")
}

// TestAMemberWaitsBeforeItReads holds that a member which has sent too many changes keeps no memory from others while it waits.
func TestAMemberWaitsBeforeItReads(t *testing.T) {
	limiter := newLimiter(t, func(l *Limits) { l.Changes = 1 }).forMember()
	for range 100 {
		limiter.rate.ReserveN(time.Now(), limiter.rate.Burst())
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // it would wait for longer
	defer cancel()
	body := strings.NewReader(`"` + strings.Repeat("x", 2*smallObject) + `"`)
	i := newItems(ctx, limiter, body, nil)
	defer i.close()
	require.Error(t, i.next(func(item) error { return errors.New("there is no item") }))
	require.Error(t, i.skip())
	assert.Equal(t, 2*smallObject+2, body.Len(), "nothing was read")
}

// TestAListThatDripsHoldsNoMemory has a member that takes its time for the second object of a page. The first one is written meanwhile.
func TestAListThatDripsHoldsNoMemory(t *testing.T) {
	m := hostile(t, nil, func(w http.ResponseWriter, req *http.Request) {
		io.WriteString(w, `{"metadata":{},"items":[`+object("a", 1)+",") //nolint:errcheck // the client is gone
		stop(w, req)
	})
	s := newStream("east", kindOfConfigMaps, m.source(), newStore(t))
	var err error
	s.target, err = s.store.OpenStream(t.Context(), "east", s.kind)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := s.pages(ctx, 1)
		failed <- err
	}()
	eventually(t, s.store, "a")
	require.Eventually(t, func() bool {
		if !m.limiter.tryHold(m.limiter.share) {
			return false
		}
		m.limiter.release(m.limiter.share)
		return true
	}, time.Minute, 10*time.Millisecond)
	cancel()
	require.Error(t, <-failed)
}

// TestFewMembersTakeNotAllMemory has all but one of those members take what they may for whose shares there is memory.
func TestFewMembersTakeNotAllMemory(t *testing.T) {
	limiter := newLimiter(t, nil)
	for range memoryShares - 1 {
		greedy := limiter.forMember()
		require.True(t, greedy.tryHold(greedy.share))
	}
	other := limiter.forMember()
	assert.True(t, other.tryHold(other.share))
}

// TestANameThatTheStoreCannotHave holds that a watch goes on after it, and that RBAC with such a name is not taken for known.
func TestANameThatTheStoreCannotHave(t *testing.T) {
	f, to := newFakeMember(t), newStore(t)
	f.wrong = map[string]string{"b": fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"default","resourceVersion":"2"}}`, strings.Repeat("x", maxName+1))}
	f.put("a")
	m, _ := run(t, f, to)
	eventually(t, to, "a")
	f.put("b", "c")
	eventually(t, to, "a", "c")
	f.remove("b")
	f.put("d")
	eventually(t, to, "a", "c", "d")
	assert.Equal(t, 1, f.count("initial"), "it is not listed again")
	_, all := m.Status()
	require.Len(t, all, 1)
	assert.Len(t, all[0].Refused, 1)

	s := newStream("east", kindOfRoles, m.source(), to)
	role := fmt.Appendf(nil, `{"metadata":{"name":%q,"namespace":"default","resourceVersion":"2"},"rules":[]}`, strings.Repeat("x", maxName+1))
	change, resourceVersion, err := s.change(role, changedObject)
	require.NoError(t, err)
	assert.Empty(t, resourceVersion, "the next event has one")
	assert.Contains(t, string(change.JSON), access.RefusedAnnotation)
	assert.LessOrEqual(t, len(change.Name), maxName)
	gone, _, err := s.change(role, deletedObject)
	require.NoError(t, err)
	assert.Equal(t, []string{change.Namespace, change.Name}, []string{gone.Namespace, gone.Name})
	assert.True(t, gone.Deleted)
}
