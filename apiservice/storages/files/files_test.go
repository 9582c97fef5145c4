// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/component-base/metrics/testutil"

	"github.com/tripod-k8s/tripod/apiservice/storages"
	"github.com/tripod-k8s/tripod/apiservice/storagetest"
)

func TestRules(t *testing.T) {
	storagetest.Run(t, storagetest.Options{
		Open: func(t *testing.T, r storages.Resource) storage.Interface {
			store, stop, err := Options{Directory: t.TempDir()}.Open(r)
			require.NoError(t, err)
			t.Cleanup(stop)
			return store
		},
		Compact: func(_ context.Context, _ *testing.T, s storage.Interface, revision int64) {
			s.(interface{ Compact(int64) }).Compact(revision)
		},
	})
}

type thing = metav1.PartialObjectMetadata

var gv = schema.GroupVersion{Group: "example.com", Version: "v1"}

func things() storages.Resource {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(gv.WithKind("Thing"), &thing{})
	scheme.AddKnownTypeWithName(gv.WithKind("ThingList"), &metav1.PartialObjectMetadataList{})
	return storages.Resource{
		GroupResource: schema.GroupResource{Group: gv.Group, Resource: "things"}, Prefix: "/things/",
		Codec: serializer.NewCodecFactory(scheme).LegacyCodec(gv),
		New:   func() runtime.Object { return &thing{} }, NewList: func() runtime.Object { return &metav1.PartialObjectMetadataList{} },
		Admit: func(o, _ runtime.Object) error {
			if o.(*thing).Labels["valid"] == "no" {
				return fmt.Errorf("the label valid is no")
			}
			return nil
		},
	}
}

// opened is a storage in a directory of the test.
type opened struct {
	storage.Interface
	t       *testing.T
	folder  string
	options Options
	stop    func()
}

func open(t *testing.T, o Options) *opened {
	t.Helper()
	if o.Directory == "" {
		o.Directory = t.TempDir()
	}
	s := &opened{t: t, folder: filepath.Join(o.Directory, "things.example.com"), options: o}
	s.open()
	t.Cleanup(func() { s.stop() })
	return s
}

func (s *opened) open() {
	s.t.Helper()
	var err error
	s.Interface, s.stop, err = s.options.Open(things())
	require.NoError(s.t, err)
}

func (s *opened) path(name string) string { return filepath.Join(s.folder, name) }

// edit writes a file as an editor does.
func (s *opened) edit(name, content string) {
	s.t.Helper()
	path := s.path(name)
	require.NoError(s.t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(s.t, os.WriteFile(path+"~", []byte(content), 0o640))
	require.NoError(s.t, os.Rename(path+"~", path))
}

func yamlOf(name, value string) string {
	return fmt.Sprintf("apiVersion: example.com/v1\nkind: Thing\nmetadata:\n  name: %s\n  labels: {value: %q}\n", name, value)
}

func (s *opened) create(name, value string) (*thing, error) {
	out := &thing{}
	object := &thing{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "default", Labels: map[string]string{"value": value}, UID: "u", CreationTimestamp: metav1.Now().Rfc3339Copy(),
	}}
	return out, s.Create(s.t.Context(), "/things/default/"+name, object, out, 0)
}

func (s *opened) update(name string, change func(*thing)) (*thing, error) {
	out := &thing{}
	return out, s.GuaranteedUpdate(s.t.Context(), "/things/default/"+name, out, false, nil,
		storage.SimpleUpdate(func(o runtime.Object) (runtime.Object, error) {
			change(o.(*thing))
			return o, nil
		}), nil)
}

func (s *opened) delete(name string) error {
	return s.Delete(s.t.Context(), "/things/default/"+name, &thing{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
}

func (s *opened) get(name string) (*thing, error) {
	out := &thing{}
	return out, s.Get(s.t.Context(), "/things/default/"+name, storage.GetOptions{}, out)
}

func (s *opened) follow() watch.Interface {
	s.t.Helper()
	list := &metav1.PartialObjectMetadataList{}
	all := storage.ListOptions{Recursive: true, Predicate: storage.Everything}
	require.NoError(s.t, s.GetList(s.t.Context(), "/things/", all, list))
	all.ResourceVersion = list.ResourceVersion
	w, err := s.Watch(s.t.Context(), "/things/", all)
	require.NoError(s.t, err)
	s.t.Cleanup(w.Stop)
	return w
}

// next returns the next event of a watch.
func (s *opened) next(w watch.Interface) (string, *thing) {
	s.t.Helper()
	select {
	case event, ok := <-w.ResultChan():
		require.True(s.t, ok, "the watch has ended")
		object, ok := event.Object.(*thing)
		require.True(s.t, ok, "%v", event.Object)
		return string(event.Type) + " " + object.Namespace + "/" + object.Name + " " + object.Labels["value"], object
	case <-time.After(time.Minute):
		require.FailNow(s.t, "no event")
	}
	return "", nil
}

func (s *opened) expect(w watch.Interface, want string) *thing {
	s.t.Helper()
	got, object := s.next(w)
	require.Equal(s.t, want, got)
	return object
}

func TestObjectsOutlastTheProcess(t *testing.T) {
	s := open(t, Options{})
	_, err := s.create("a", "1")
	require.NoError(t, err)
	before, err := s.update("a", func(o *thing) { o.Labels["value"] = "2" })
	require.NoError(t, err)
	_, err = s.create("b", "1")
	require.NoError(t, err)
	require.NoError(t, s.delete("b"))
	s.stop()
	require.NoError(t, os.WriteFile(s.path("default/"+unfinished+"a.yaml"), []byte("half"), 0o600))
	s.open()
	after, err := s.get("a")
	require.NoError(t, err)
	assert.Greater(t, after.ResourceVersion, before.ResourceVersion)
	after.ResourceVersion = before.ResourceVersion
	assert.Equal(t, before, after)
	_, err = s.get("b")
	assert.True(t, storage.IsNotFound(err), "%v", err)
	entries, err := os.ReadDir(s.path("default"))
	require.NoError(t, err)
	assert.Len(t, entries, 1, "what the other process has not finished is gone")
	info, err := os.Stat(s.path("default/a.yaml"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestEditsBecomeEvents(t *testing.T) {
	s := open(t, Options{})
	w := s.follow()
	s.edit("default/a.yaml", "# mine\n---\n"+yamlOf("a", "1"))
	first := s.expect(w, "ADDED default/a 1")
	assert.NotEmpty(t, first.UID)
	assert.False(t, first.CreationTimestamp.IsZero())
	s.edit("default/a.yaml", yamlOf("a", "2"))
	second := s.expect(w, "MODIFIED default/a 2")
	assert.Equal(t, first.UID, second.UID, "an edit makes no other object of it")
	assert.Equal(t, first.CreationTimestamp, second.CreationTimestamp)
	_, err := s.update("a", func(o *thing) { o.Labels["value"] = "3" })
	require.NoError(t, err)
	third := s.expect(w, "MODIFIED default/a 3")
	assert.Equal(t, first.UID, third.UID)
	info, err := os.Stat(s.path("default/a.yaml"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o640), info.Mode().Perm(), "those who could read the file still can")
	require.NoError(t, os.RemoveAll(s.path("default")))
	s.expect(w, "DELETED default/a 3")
	s.edit("other/b.yaml", yamlOf("b", "1"))
	s.expect(w, "ADDED other/b 1")
}

// An editor, or a program that writes whole files, leaves out what only the service knows.
func TestAnEditKeepsMetadata(t *testing.T) {
	s := open(t, Options{})
	created, err := s.create("a", "1")
	require.NoError(t, err)
	_, err = s.update("a", func(o *thing) {
		o.Finalizers, o.DeletionTimestamp = []string{"example.com/hold"}, new(metav1.Now().Rfc3339Copy())
		o.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "p"}}
	})
	require.NoError(t, err)
	w := s.follow()
	s.edit("default/a.yaml", yamlOf("a", "2"))
	s.expect(w, "MODIFIED default/a 2")
	for _, when := range []string{"after the edit", "after a restart"} {
		edited, err := s.get("a")
		require.NoError(t, err)
		assert.Equal(t, created.UID, edited.UID, when)
		assert.Equal(t, []string{"example.com/hold"}, edited.Finalizers, when)
		assert.NotNil(t, edited.DeletionTimestamp, when)
		assert.Len(t, edited.OwnerReferences, 1, when)
		s.stop()
		s.open()
	}
	w = s.follow()
	s.edit("default/a.yaml", strings.Replace(yamlOf("a", "3"), "labels", "finalizers: []\n  labels", 1))
	s.expect(w, "DELETED default/a 2")
	_, err = os.Lstat(s.path("default/a.yaml"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = s.create("a", "4")
	require.NoError(t, err)
}

func TestAFileOfAnEditorStaysAsItIs(t *testing.T) {
	s := open(t, Options{})
	w := s.follow()
	for _, value := range []string{"1", "2"} {
		content := "# mine\n" + yamlOf("a", value)
		s.edit("default/a.yaml", content)
		_, object := s.next(w)
		assert.Equal(t, value, object.Labels["value"])
		s.stop() // and what it writes is written
		kept, err := os.ReadFile(s.path("default/a.yaml"))
		require.NoError(t, err)
		assert.Equal(t, content, string(kept))
		s.open()
		w = s.follow()
	}
}

func TestARefusedFileKeepsItsObjectAndStopsNoOther(t *testing.T) {
	const large = 2000
	for name, test := range map[string]struct {
		content, want string
		place         func(path string) error
	}{
		"no YAML":         {content: "a: [", want: "yaml"},
		"a key twice":     {content: yamlOf("a", "2") + "kind: Thing\n", want: "already set"},
		"another kind":    {content: "apiVersion: example.com/v1\nkind: Other\nmetadata: {name: a}\n", want: `no kind "Other"`},
		"two documents":   {content: yamlOf("a", "2") + "---\n" + yamlOf("b", "2"), want: "2 documents"},
		"nothing":         {content: "# later\n", want: "0 documents"},
		"another name":    {content: yamlOf("b", "2"), want: "belongs in"},
		"a hostile name":  {content: yamlOf("../../a", "2"), want: "is no key of an object"},
		"invalid":         {content: strings.Replace(yamlOf("a", "2"), "value:", "valid: 'no', value:", 1), want: "the label valid is no"},
		"many aliases":    {content: "a: &a [x,x,x,x,x,x,x,x,x]\n" + bomb(), want: "excessive aliasing"},
		"too large":       {content: yamlOf("a", "2") + "#" + strings.Repeat("x", large), want: "more than 2000 bytes"},
		"another's names": {content: strings.Replace(yamlOf("a", "2"), "  name", "  namespace: other\n  name", 1), want: "belongs in"},
		"a link": {want: "no regular file", place: func(path string) error {
			return os.Symlink("/etc/passwd", path)
		}},
		"a pipe": {want: "no regular file", place: func(path string) error { return syscall.Mkfifo(path, 0o600) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, Options{MaxFileBytes: large})
			_, err := s.create("a", "1")
			require.NoError(t, err)
			w := s.follow()
			if test.place != nil {
				require.NoError(t, test.place(s.path("default/a.yaml~")))
				require.NoError(t, os.Rename(s.path("default/a.yaml~"), s.path("default/a.yaml")))
			} else {
				s.edit("default/a.yaml", test.content)
			}
			_, err = s.update("a", func(o *thing) { o.Labels["value"] = "3" })
			require.ErrorContains(t, err, test.want, "a write that would overwrite what an editor has written")
			assert.NotContains(t, err.Error(), "\n")
			count, err := testutil.GetGaugeMetricValue(refused.WithLabelValues("things.example.com"))
			require.NoError(t, err)
			assert.InDelta(t, 1, count, 0)
			s.edit("default/b.yaml", yamlOf("b", "1"))
			s.expect(w, "ADDED default/b 1")
			kept, err := s.get("a")
			require.NoError(t, err)
			assert.Equal(t, "1", kept.Labels["value"])
			_, err = s.create("c", "1")
			require.NoError(t, err)
			s.expect(w, "ADDED default/c 1")

			s.edit("default/a.yaml", yamlOf("a", "mended"))
			s.expect(w, "MODIFIED default/a mended")
			s.stop()
			count, err = testutil.GetGaugeMetricValue(refused.WithLabelValues("things.example.com"))
			require.NoError(t, err)
			assert.Zero(t, count)
			s.open()
		})
	}
}

// bomb returns YAML that is small, and large once it is decoded.
func bomb() string {
	var text strings.Builder
	for c := 'b'; c < 'k'; c++ {
		fmt.Fprintf(&text, "%c: &%c [%s*%c]\n", c, c, strings.Repeat(fmt.Sprintf("*%c,", c-1), 8), c-1)
	}
	return text.String()
}

// An editor saves a moment before a client writes.
func TestNoWriteOverwritesAnEdit(t *testing.T) {
	s := open(t, Options{})
	_, err := s.create("a", "1")
	require.NoError(t, err)
	s.edit("default/a.yaml", strings.Replace(yamlOf("a", "1"), "value", "edited: 'yes', value", 1))
	changed, err := s.update("a", func(o *thing) { o.Labels["value"] = "2" })
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"edited": "yes", "value": "2"}, changed.Labels)
	s.edit("default/b.yaml", yamlOf("b", "mine"))
	_, err = s.create("b", "other")
	assert.True(t, storage.IsExist(err), "%v", err)
	require.NoError(t, os.Remove(s.path("default/b.yaml")))
	_, err = s.update("b", func(o *thing) { o.Labels["value"] = "2" })
	assert.True(t, storage.IsNotFound(err), "an object whose file is gone does not come back: %v", err)
}

func TestNamesStayInTheirDirectory(t *testing.T) {
	s := open(t, Options{})
	long := strings.Repeat("x", 253)
	names := []string{
		"a", "A", "..a", ".hidden", "a~", "a:b", "%41", "%2e", `c:\a`, "a b", "é", "con.yaml", long, long[1:] + "y", "\n", "system:node:x", "#a#",
	}
	for _, name := range names {
		_, err := s.create(name, "1")
		require.NoError(t, err, "%q", name)
	}
	for _, key := range []string{"/things/", "/things/a/b/c", "/things/a/", "/things/a/..", "/things/../a"} {
		assert.Error(t, s.Create(t.Context(), key, &thing{}, &thing{}, 0), "%q", key)
	}
	s.stop()
	folder, err := os.ReadDir(s.path("default"))
	require.NoError(t, err)
	lower := map[string]bool{}
	for _, entry := range folder {
		lower[strings.ToLower(entry.Name())] = true
		assert.True(t, entry.Type().IsRegular())
	}
	assert.Len(t, lower, len(names), "no two have one file, also where large letters are small ones")
	s.open()
	for _, name := range names {
		_, err := s.get(name)
		assert.NoError(t, err, "%q", name)
	}
	all, err := os.ReadDir(s.options.Directory)
	require.NoError(t, err)
	assert.Len(t, all, 1)
}

func TestADirectoryHasOneProcess(t *testing.T) {
	s := open(t, Options{})
	_, _, err := s.options.Open(things())
	assert.ErrorContains(t, err, "another process uses this directory")
	_, _, err = Options{Directory: filepath.Join(t.TempDir(), "none")}.Open(things())
	assert.ErrorContains(t, err, "none does not exist: create it")
}

func TestWhatCannotBeWrittenDoesNotExist(t *testing.T) {
	s := open(t, Options{})
	_, err := s.create("a", "1")
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(s.path("default/"+unfinished+"a.yaml"), 0o700)) // in the place of the new file
	_, err = s.update("a", func(o *thing) { o.Labels["value"] = "2" })
	require.Error(t, err)
	kept, err := s.get("a")
	require.NoError(t, err)
	assert.Equal(t, "1", kept.Labels["value"])
}

func TestFilesAreBounded(t *testing.T) {
	s := open(t, Options{MaxFiles: 2, MaxFileBytes: 1000})
	_, err := s.create("large", strings.Repeat("x", 1000))
	assert.True(t, apierrors.IsRequestEntityTooLargeError(err), "%v", err)
	for _, name := range []string{"a", "b"} {
		_, err := s.create(name, "1")
		require.NoError(t, err)
	}
	_, err = s.create("c", "1")
	assert.ErrorContains(t, err, "the most that are allowed")
	require.NoError(t, s.delete("b"))
	_, err = s.create("c", "1")
	require.NoError(t, err)
	s.edit("default/d.yaml", yamlOf("d", "1"))
	require.Eventually(t, func() bool { return s.ReadinessCheck() != nil }, time.Minute, time.Millisecond)
	assert.ErrorContains(t, s.ReadinessCheck(), "more than 2 files: remove some")
	_, err = s.get("a")
	require.NoError(t, err)
	require.NoError(t, os.Remove(s.path("default/d.yaml")))
	require.Eventually(t, func() bool { return s.ReadinessCheck() == nil }, time.Minute, time.Millisecond)
}

// A volume may be away for a while.
func TestADirectoryThatIsAwayDeletesNothing(t *testing.T) {
	s := open(t, Options{})
	_, err := s.create("a", "1")
	require.NoError(t, err)
	require.NoError(t, os.Rename(s.folder, s.folder+"-away"))
	require.NoError(t, os.Mkdir(s.folder, 0o700))
	require.Eventually(t, func() bool { return s.ReadinessCheck() != nil }, time.Minute, time.Millisecond)
	_, err = s.get("a")
	require.NoError(t, err)
	require.NoError(t, os.Remove(s.folder))
	require.NoError(t, os.Rename(s.folder+"-away", s.folder))
	require.Eventually(t, func() bool { return s.ReadinessCheck() == nil }, time.Minute, time.Millisecond)
}

// YAML takes these characters for others, or for none.
func TestControlCharactersOutlastTheProcess(t *testing.T) {
	s := open(t, Options{})
	var all strings.Builder
	for r := rune(1); r <= 0x2100; r++ {
		all.WriteRune(r)
	}
	values := map[string]string{
		"a": all.String(), "del": "\u007f", "nel": "x\u0085y", "c1": "\u0080\u009f", "bom": "\ufeff", "separators": "a\u2028b\u2029", "large": "😀",
		"last": "\ufffd\ufffe\uffff", "spaces": " x \n\n", "text": "a: [b]\n---\nc", "number": "0x1F", "null": "~", "one": "\n",
	}
	for name, value := range values {
		_, err := s.create(name, value)
		require.NoError(t, err, name)
	}
	s.stop()
	s.open()
	for name, value := range values {
		kept, err := s.get(name)
		require.NoError(t, err, name)
		assert.Equal(t, value, kept.Labels["value"], name)
	}
}

func TestAFailedDeletionCanBeTriedAgain(t *testing.T) {
	s := open(t, Options{})
	_, err := s.create("a", "1")
	require.NoError(t, err)
	d := s.Interface.(*store).directory
	disk := d.syncFolder
	d.store.Exclusively(func() { d.syncFolder = func(string) error { return syscall.EIO } })
	require.ErrorIs(t, s.delete("a"), syscall.EIO)
	d.store.Exclusively(func() { d.syncFolder = disk })
	if err := s.delete("a"); err != nil { // the look at the directory may have been first
		assert.True(t, storage.IsNotFound(err), "%v", err)
	}
	_, err = s.get("a")
	assert.True(t, storage.IsNotFound(err), "%v", err)
	_, err = s.create("a", "2")
	require.NoError(t, err)
}

func TestNamespacesAreBounded(t *testing.T) {
	s := open(t, Options{MaxFiles: 2})
	create := func(namespace string) error {
		object := &thing{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: namespace, UID: "u", CreationTimestamp: metav1.Now().Rfc3339Copy()}}
		return s.Create(t.Context(), "/things/"+namespace+"/a", object, &thing{}, 0)
	}
	require.NoError(t, create("one"))
	require.NoError(t, create("two"))
	err := create("three")
	require.ErrorContains(t, err, "the most namespaces")
	assert.Equal(t, int32(507), err.(apierrors.APIStatus).Status().Code)
	s.stop()
	s.open()
	require.NoError(t, s.Delete(t.Context(), "/things/two/a", &thing{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}))
	require.NoError(t, create("three"))
}

func TestAFolderThatIsTooFullStopsNoOther(t *testing.T) {
	s := open(t, Options{MaxFiles: 2})
	for _, name := range []string{"a", "b"} {
		_, err := s.create(name, "1")
		require.NoError(t, err)
	}
	w := s.follow()
	s.edit("default/c.yaml", yamlOf("c", "1"))
	s.edit("default/a.yaml", yamlOf("a", "2"))
	require.Eventually(t, func() bool { return s.ReadinessCheck() != nil }, time.Minute, time.Millisecond)
	s.edit("other/x.yaml", yamlOf("x", "1"))
	for {
		if event, _ := s.next(w); event == "ADDED other/x 1" {
			break
		}
	}
	_, err := s.get("b")
	require.NoError(t, err)
}

// Its time is within the granularity of the clock of some file systems.
func TestAnEditThatLeavesTimeAndSizeIsNotOverwritten(t *testing.T) {
	s := open(t, Options{})
	_, err := s.create("a", "1")
	require.NoError(t, err)
	path := s.path("default/a.yaml")
	info, err := os.Stat(path)
	require.NoError(t, err)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	content = []byte(strings.Replace(string(content), `"1"`, `"7"`, 1))
	require.NoError(t, os.WriteFile(path, content, 0o600))
	require.NoError(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
	var seen string
	_, err = s.update("a", func(o *thing) {
		seen = o.Labels["value"]
		o.Labels["later"] = "yes"
	})
	require.NoError(t, err)
	assert.Equal(t, "7", seen)
}
