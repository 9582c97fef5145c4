// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/admin/etcd/snapshot/bucket"
	"github.com/tripod-k8s/tripod/admin/etcd/snapshot/bucket/buckettest"
)

func connect(t *testing.T, s bucket.Server) *bucket.Client {
	t.Helper()
	client, err := s.Connect(t.Context())
	require.NoError(t, err)
	return client
}

func parse(t *testing.T, location string) bucket.URL {
	t.Helper()
	u, err := bucket.Parse(location)
	require.NoError(t, err)
	return u
}

// newFile returns a file of random bytes.
func newFile(t *testing.T, size int) (file *os.File, content []byte) {
	t.Helper()
	content = make([]byte, size)
	_, err := rand.Read(content)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	file, err = os.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { file.Close() })
	return file, content
}

func put(t *testing.T, client *bucket.Client, u bucket.URL, size int) (content []byte, tag string) {
	t.Helper()
	file, content := newFile(t, size)
	tag, err := client.Put(t.Context(), u, file, int64(size), map[string]string{"Revision": "7"}, nil)
	require.NoError(t, err)
	return content, tag
}

func TestWhatWasPutIsRead(t *testing.T) {
	s := buckettest.Start(t, "backups")
	client := connect(t, s.Server)
	for name, size := range map[string]int{"small.db": 1000, "empty.db": 0, "in parts.db": 13 << 20} {
		u := parse(t, "s3://backups/a/folder/"+name)
		content, tag := put(t, client, u, size)
		object, err := client.Stat(t.Context(), u)
		require.NoError(t, err)
		assert.Equal(t, tag, object.Tag)
		assert.EqualValues(t, size, object.Bytes)
		assert.Equal(t, "7", object.Metadata["Revision"])
		var read bytes.Buffer
		require.NoError(t, client.Read(t.Context(), object, &read))
		assert.True(t, bytes.Equal(content, read.Bytes()), "%s has other bytes", name)
	}
	put(t, client, parse(t, "s3://backups/a/folder/below/small.db"), 1)
	put(t, client, parse(t, "s3://backups/a/folder-of-others/small.db"), 1)
	folder, err := bucket.ParseFolder("s3://backups/a/folder")
	require.NoError(t, err)
	assert.Equal(t, []string{"empty.db", "in parts.db", "small.db"}, names(t, client, folder, ""))
	assert.Equal(t, []string{"small.db"}, names(t, client, folder, "sm"))
	require.NoError(t, client.Remove(t.Context(), folder.Join("small.db")))
	exists, err := client.Exists(t.Context(), folder.Join("small.db"))
	require.NoError(t, err)
	assert.False(t, exists)
	exists, err = client.Exists(t.Context(), folder.Join("small")) // a prefix of none
	require.NoError(t, err)
	assert.False(t, exists)
}

// names returns those of the objects in a folder.
func names(t *testing.T, client *bucket.Client, folder bucket.URL, prefix string) (names []string) {
	t.Helper()
	objects, err := client.List(t.Context(), folder, prefix)
	require.NoError(t, err)
	for _, o := range objects {
		if !strings.HasSuffix(o.URL.Key, "/") {
			names = append(names, strings.TrimPrefix(o.URL.Key, folder.Key))
		}
	}
	return names
}

// Directory buckets of Amazon S3 do not sort.
func TestServersNeedNotSort(t *testing.T) {
	keys := []string{"b.db", "a.db.bak", "a.db", "c.db"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var objects strings.Builder
		for _, key := range keys {
			if strings.HasPrefix(key, r.FormValue("prefix")) {
				fmt.Fprintf(&objects, "<Contents><Key>%s</Key><LastModified>2026-01-01T00:00:00Z</LastModified><Size>1</Size></Contents>", key)
			}
		}
		fmt.Fprintf(w, "<ListBucketResult><IsTruncated>false</IsTruncated>%s</ListBucketResult>", &objects)
	}))
	t.Cleanup(server.Close)
	buckettest.SetCredentials(t, "a", "another-secret")
	client := connect(t, bucket.Server{Endpoint: server.URL})
	exists, err := client.Exists(t.Context(), parse(t, "s3://backups/a.db"))
	require.NoError(t, err)
	assert.True(t, exists)
	assert.Equal(t, []string{"a.db", "a.db.bak", "b.db", "c.db"}, names(t, client, parse(t, "s3://backups/"), ""))
}

// An upload sends only the parts again whose connections were cut, and a download goes on where it was.
func TestTransfersSurviveCuts(t *testing.T) {
	const size, cuts, after = 24 << 20, 3, 2 << 20
	s := buckettest.Start(t, "backups")
	client := connect(t, s.Server)
	bucket.SetPartSize(client, 5<<20)
	u := parse(t, "s3://backups/cut.db")
	s.Relay.Cut(cuts, after)
	content, tag := put(t, client, u, size)
	require.Zero(t, s.Relay.Left(), "no connection was cut")
	// Each cut costs a part at most, and what the kernel had taken before.
	assert.Less(t, s.Relay.Sent.Load(), int64(size+cuts*6<<20), "parts that had arrived were sent again")

	client = connect(t, s.Server) // with connections of its own
	s.Relay.Received.Store(0)
	s.Relay.Cut(cuts, after)
	var read bytes.Buffer
	require.NoError(t, client.Read(t.Context(), &bucket.Object{URL: u, Bytes: size, Tag: tag}, &read))
	require.Zero(t, s.Relay.Left(), "no connection was cut")
	assert.True(t, bytes.Equal(content, read.Bytes()), "other bytes were read")
	assert.Less(t, s.Relay.Received.Load(), int64(size+cuts<<20), "bytes were read again")
}

func TestInterruptedUploadLeavesNothing(t *testing.T) {
	s := buckettest.Start(t, "backups")
	client := connect(t, s.Server)
	bucket.SetPartSize(client, 5<<20)
	ctx, cancel := context.WithCancel(t.Context())
	s.Relay.OnSent(func(sent int64) {
		if sent > 12<<20 {
			cancel()
		}
	})
	file, _ := newFile(t, 24<<20)
	_, err := client.Put(ctx, parse(t, "s3://backups/folder/a.db"), file, 24<<20, nil, nil)
	require.ErrorIs(t, err, context.Canceled)
	s.Relay.OnSent(nil)
	assert.Empty(t, names(t, client, parse(t, "s3://backups/folder/"), ""))
	assert.Empty(t, s.Incomplete(t, "backups"), "parts are left")
}

// An upload goes on with the parts that the server has, unless these are of another file.
func TestAnUploadIsContinued(t *testing.T) {
	const size, partSize = 60 << 20, 5 << 20
	s := buckettest.Start(t, "backups")
	client := connect(t, s.Server)
	bucket.SetPartSize(client, partSize)
	u := parse(t, "s3://backups/folder/a.db")
	file, content := newFile(t, size)
	var upload bucket.Upload
	r := bucket.Resumable{
		File: file, Size: size, Metadata: map[string]string{"Revision": "7"},
		Begun: func(begun bucket.Upload) error { upload = begun; return nil }, Done: func(int64) {},
	}
	ctx, cancel := context.WithCancel(t.Context())
	s.Relay.OnSent(func(sent int64) {
		if sent > 40<<20 { // four parts at a time are under way
			cancel()
		}
	})
	_, err := client.Resume(ctx, u, r)
	require.ErrorIs(t, err, context.Canceled)
	s.Relay.OnSent(nil)
	require.Equal(t, []string{"folder/a.db"}, s.Incomplete(t, "backups"))

	// One part is of another file now.
	content[0] ^= 1
	require.NoError(t, os.WriteFile(file.Name(), content, 0o600))
	before := upload
	r.Before = upload
	client = connect(t, s.Server) // with connections and a part size of its own
	s.Relay.Sent.Store(0)
	var there atomic.Int64
	r.Done = func(bytes int64) { there.Add(bytes) }
	tag, err := client.Resume(t.Context(), u, r)
	require.NoError(t, err)
	assert.Equal(t, before, upload, "another upload has begun")
	assert.EqualValues(t, size, there.Load())
	assert.Less(t, s.Relay.Sent.Load(), int64(size-2*partSize), "parts that had arrived were sent again")
	object, err := client.Stat(t.Context(), u)
	require.NoError(t, err)
	assert.Equal(t, tag, object.Tag)
	assert.Equal(t, "7", object.Metadata["Revision"])
	var read bytes.Buffer
	require.NoError(t, client.Read(t.Context(), object, &read))
	assert.True(t, bytes.Equal(content, read.Bytes()), "the object has other bytes")
	assert.Empty(t, s.Incomplete(t, "backups"))
}

func TestAnUploadThatTheServerLostBeginsAnew(t *testing.T) {
	s := buckettest.Start(t, "backups")
	client := connect(t, s.Server)
	u := parse(t, "s3://backups/a.db")
	file, content := newFile(t, 1000)
	begun := 0
	r := bucket.Resumable{
		File: file, Size: 1000, Before: bucket.Upload{ID: "00000000-0000-4000-8000-000000000000", PartSize: 5 << 20},
		Begun: func(bucket.Upload) error { begun++; return nil }, Done: func(int64) {},
	}
	_, err := client.Resume(t.Context(), u, r)
	require.NoError(t, err)
	assert.Equal(t, 1, begun)
	stored, err := os.ReadFile(filepath.Join(s.Folder, "backups", "a.db"))
	require.NoError(t, err)
	assert.Equal(t, content, stored)
}

// The right to list parts is optional.
func TestAnUploadWhosePartsCannotBeListedBeginsAnew(t *testing.T) {
	s := buckettest.Start(t, "backups")
	there, err := url.Parse(s.Server.Endpoint)
	require.NoError(t, err)
	transport, err := s.Server.Transport()
	require.NoError(t, err)
	t.Cleanup(transport.CloseIdleConnections)
	proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = there.Scheme, there.Host // the signature is for the Host of the client
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.URL.Query().Has("uploadId") {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, "<Error><Code>AccessDenied</Code></Error>")
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	client := connect(t, bucket.Server{Endpoint: server.URL, Region: s.Server.Region})
	u := parse(t, "s3://backups/a.db")
	file, content := newFile(t, 1000)
	var begun []bucket.Upload
	failed := errors.New("the command ended")
	r := bucket.Resumable{
		File: file, Size: 1000, Done: func(int64) {},
		Begun: func(upload bucket.Upload) error { begun = append(begun, upload); return failed },
	}
	_, err = client.Resume(t.Context(), u, r)
	require.ErrorIs(t, err, failed)
	failed, r.Before = nil, begun[0]
	_, err = client.Resume(t.Context(), u, r)
	require.NoError(t, err)
	assert.Len(t, begun, 2)
	stored, err := os.ReadFile(filepath.Join(s.Folder, "backups", "a.db"))
	require.NoError(t, err)
	assert.Equal(t, content, stored)
	assert.Empty(t, s.Incomplete(t, "backups"), "parts are left")
}

func TestAnAbortedUploadLeavesNothing(t *testing.T) {
	s := buckettest.Start(t, "backups")
	client := connect(t, s.Server)
	u := parse(t, "s3://backups/a.db")
	file, _ := newFile(t, 1000)
	var upload bucket.Upload
	failed := errors.New("no room for the state")
	_, err := client.Resume(t.Context(), u, bucket.Resumable{
		File: file, Size: 1000, Begun: func(begun bucket.Upload) error { upload = begun; return failed }, Done: func(int64) {},
	})
	require.ErrorIs(t, err, failed)
	require.Len(t, s.Incomplete(t, "backups"), 1)
	require.NoError(t, client.Abort(t.Context(), u, upload))
	assert.Empty(t, s.Incomplete(t, "backups"))
	require.NoError(t, client.Abort(t.Context(), u, upload), "once more")
	require.NoError(t, client.Abort(t.Context(), u, bucket.Upload{}), "none")
}

// lateParts is an S3 server that has one upload. Parts that were on their way bring it back some times after it was aborted.
type lateParts struct {
	mutex  sync.Mutex
	exists bool
	// late is how many more parts arrive, each at the second list after the upload was aborted.
	late, lists int
	aborted     []string
}

func (l *lateParts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	switch {
	case r.Method == http.MethodDelete && l.exists && r.URL.Query().Get("uploadId") == "mine":
		l.exists, l.lists = false, 0
		l.aborted = append(l.aborted, r.URL.Path)
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodGet && r.URL.Query().Has("uploads"):
		if l.lists++; l.lists == 2 && l.late > 0 {
			l.late--
			l.exists = true
		}
		const upload = "<Upload><Key>%s</Key><UploadId>%s</UploadId><Initiated>2026-01-01T00:00:00Z</Initiated></Upload>"
		uploads := fmt.Sprintf(upload, "a.db", "of-another-command") + fmt.Sprintf(upload, "a.db.bak", "mine")
		if l.exists {
			uploads += fmt.Sprintf(upload, "a.db", "mine")
		}
		fmt.Fprintf(w, "<ListMultipartUploadsResult><IsTruncated>false</IsTruncated>%s</ListMultipartUploadsResult>", uploads)
	default:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, "<Error><Code>NoSuchUpload</Code></Error>")
	}
}

// S3 accepts parts that were on their way when their upload was aborted, and asks clients to abort again.
func TestAnUploadIsAbortedAgainIfPartsArriveLate(t *testing.T) {
	s3 := &lateParts{exists: true, late: 2}
	server := httptest.NewServer(s3)
	t.Cleanup(server.Close)
	buckettest.SetCredentials(t, "a", "another-secret")
	client := connect(t, bucket.Server{Endpoint: server.URL})
	require.NoError(t, client.Abort(t.Context(), parse(t, "s3://backups/a.db"), bucket.Upload{ID: "mine"}))
	s3.mutex.Lock()
	defer s3.mutex.Unlock()
	assert.False(t, s3.exists, "parts are left")
	assert.Equal(t, []string{"/backups/a.db", "/backups/a.db", "/backups/a.db"}, s3.aborted)
}

// A killed command cannot remove its parts.
func TestPartsOfKilledUploadsAreRemoved(t *testing.T) {
	s := buckettest.Start(t, "backups")
	client := connect(t, s.Server)
	for _, key := range []string{"folder/a.db", "folder/b.db", "folder/below/a.db", "folder-2/a.db"} {
		bucket.Begin(t, client, "backups", key)
	}
	folder := parse(t, "s3://backups/folder/")
	isA := func(name string) bool { return name == "a.db" }
	require.NoError(t, client.RemoveParts(t.Context(), folder, time.Now().Add(-time.Hour), isA))
	assert.Len(t, s.Incomplete(t, "backups"), 4, "recent uploads may still go on")
	require.NoError(t, client.RemoveParts(t.Context(), folder, time.Now().Add(time.Hour), isA))
	assert.ElementsMatch(t, []string{"folder/b.db", "folder/below/a.db", "folder-2/a.db"}, s.Incomplete(t, "backups"))
}

func TestAnObjectThatWasReplacedIsNeitherReadNorRemoved(t *testing.T) {
	s := buckettest.Start(t, "backups")
	client := connect(t, s.Server)
	u := parse(t, "s3://backups/a.db")
	_, tag := put(t, client, u, 1000)
	put(t, client, u, 1000)
	err := client.Read(t.Context(), &bucket.Object{URL: u, Bytes: 1000, Tag: tag}, &bytes.Buffer{})
	require.ErrorContains(t, err, "was replaced meanwhile")
	require.NoError(t, client.RemoveIfSame(t.Context(), u, tag))
	exists, err := client.Exists(t.Context(), u)
	require.NoError(t, err)
	assert.True(t, exists, "the object of another command is gone")
}

func TestFullDiskIsNoFaultOfTheServer(t *testing.T) {
	s := buckettest.Start(t, "backups")
	client := connect(t, s.Server)
	u := parse(t, "s3://backups/a.db")
	_, tag := put(t, client, u, 1000)
	full := errors.New("no space left on device")
	err := client.Read(t.Context(), &bucket.Object{URL: u, Bytes: 1000, Tag: tag}, failing{full})
	assert.Equal(t, full, err)
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestErrorsAreOneLineThatSaysWhatToDo(t *testing.T) {
	s := buckettest.Start(t, "backups")
	other := filepath.Join(t.TempDir(), "other.crt")
	for _, test := range []struct {
		name, location string
		change         func(t *testing.T, server *bucket.Server)
		want           string
	}{
		{name: "no server", change: func(_ *testing.T, server *bucket.Server) { server.Endpoint = "https://127.0.0.1:1" },
			want: "cannot reach S3 at https://127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused"},
		{name: "another CA", change: func(_ *testing.T, server *bucket.Server) { server.CAFile = "" }, want: "failed to verify certificate"},
		{name: "no CA", change: func(_ *testing.T, server *bucket.Server) { server.CAFile = other }, want: "cannot read the CA of S3"},
		{name: "no bucket", location: "s3://others/a.db", want: "has no bucket others: create it first"},
		{name: "no rights", change: func(t *testing.T, _ *bucket.Server) {
			buckettest.SetCredentials(t, buckettest.StrangerUser, buckettest.Stranger)
		}, want: "denies access to s3://backups/a.db: the credentials need s3:ListBucket, s3:GetObject"},
		{name: "wrong secret", change: func(t *testing.T, _ *bucket.Server) {
			buckettest.SetCredentials(t, buckettest.User, "another-secret")
		}, want: "does not accept the credentials or the region (SignatureDoesNotMatch)"},
		{name: "unknown user", change: func(t *testing.T, _ *bucket.Server) { buckettest.SetCredentials(t, "nobody", "another-secret") },
			want: "does not accept the credentials or the region (InvalidAccessKeyId)"},
		{name: "no credentials", change: func(t *testing.T, _ *bucket.Server) { buckettest.SetCredentials(t, "", "") },
			want: "no credentials for S3: set AWS_ACCESS_KEY_ID"},
		{name: "a password in the URL", change: func(_ *testing.T, server *bucket.Server) { server.Endpoint = "https://a:another-secret@127.0.0.1:1" },
			want: `the URL of S3, "https://127.0.0.1:1", must have`},
		{name: "no URL", change: func(_ *testing.T, server *bucket.Server) { server.Endpoint = "127.0.0.1:1" }, want: "is not a URL of S3 such as"},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := s.Server
			if test.change != nil {
				test.change(t, &server)
			}
			client, err := server.Connect(t.Context())
			if err == nil {
				location := test.location
				if location == "" {
					location = "s3://backups/a.db"
				}
				_, err = client.Stat(t.Context(), parse(t, location))
			}
			require.ErrorContains(t, err, test.want)
			assert.NotContains(t, err.Error(), "\n")
			for _, secret := range []string{buckettest.Secret, buckettest.Stranger, "another-secret"} {
				assert.NotContains(t, err.Error(), secret)
			}
		})
	}
}

func TestCredentialsMayBeInAFile(t *testing.T) {
	s := buckettest.Start(t, "backups")
	buckettest.SetCredentials(t, "", "")
	file := filepath.Join(t.TempDir(), "credentials")
	content := "[default]\naws_access_key_id = " + buckettest.User + "\naws_secret_access_key = " + buckettest.Secret + "\n"
	require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
	t.Setenv("AWS_ENDPOINT_URL", s.Server.Endpoint)
	t.Setenv("AWS_CA_BUNDLE", s.Server.CAFile)
	exists, err := connect(t, bucket.Server{}).Exists(t.Context(), parse(t, "s3://backups/a.db"))
	require.NoError(t, err)
	assert.False(t, exists)
}

func TestURLs(t *testing.T) {
	for location, want := range map[string]string{
		"s3://backups/a.db":                         "s3://backups/a.db",
		"s3://backups/a/b c.db":                     "s3://backups/a/b c.db",
		"s3://backups":                              "folder",
		"s3://backups/":                             "folder",
		"s3://backups/a/":                           "folder",
		"s3:///a.db":                                "no name of a bucket",
		"s3://B/a.db":                               "no name of a bucket",
		"s3://backups//a.db":                        "empty element",
		"s3://backups/a//b.db":                      "empty element",
		"s3://backups/../b.db":                      "empty element",
		"s3://backups/./b.db":                       "empty element",
		"https://backups/a.db":                      "not a URL such as s3://",
		"backup.db":                                 "not a URL such as s3://",
		"s3://backups/" + strings.Repeat("a", 1025): "not a URL such as s3://",
	} {
		u, err := bucket.ParseObject(location)
		if err != nil {
			assert.ErrorContains(t, err, want, location)
			continue
		}
		assert.Equal(t, want, u.String())
	}
}

// FuzzParse never returns an object whose URL is another one.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"s3://backups/a.db", "s3://backups/a/../b", "s3://b/", "s3://backups/a//", "s3://backups/%2e%2e/a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, location string) {
		u, err := bucket.ParseObject(location)
		if err != nil {
			return
		}
		require.Equal(t, location, u.String())
		require.NotContains(t, strings.Split(u.Key, "/"), "..")
		require.NotEmpty(t, u.Name())
		again, err := bucket.Parse(u.String())
		require.NoError(t, err)
		require.Equal(t, u, again)
	})
}
