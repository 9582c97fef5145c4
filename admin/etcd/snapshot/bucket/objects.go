// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
)

const (
	// maxObjects is how many objects of a folder are listed. Retention keeps far fewer.
	maxObjects = 100_000
	// cleanTimeout is how long the removal of what a failed command has left may take.
	cleanTimeout = 30 * time.Second
)

// Object is an object of a bucket.
type Object struct {
	URL   URL
	Bytes int64
	Time  time.Time
	// Tag changes with the content.
	Tag string
	// Metadata is what Put had. List leaves it out.
	Metadata map[string]string
}

// Exists reports whether there is an object. It lists, because servers answer that with the reason why they refuse, and HEAD without.
func (c *Client) Exists(ctx context.Context, u URL) (bool, error) {
	exists := false
	// Not all servers sort: the first key with this prefix may be a longer one.
	err := c.each(ctx, u, minio.ListObjectsOptions{Prefix: u.Key}, func(o minio.ObjectInfo) bool {
		exists = o.Key == u.Key
		return !exists
	})
	return exists, err
}

// List returns the objects of a folder, without those of folders in it, whose names begin with a prefix. They are sorted by name.
func (c *Client) List(ctx context.Context, folder URL, prefix string) ([]Object, error) {
	var objects []Object
	var tooMany error
	err := c.each(ctx, folder, minio.ListObjectsOptions{Prefix: folder.Key + prefix}, func(o minio.ObjectInfo) bool {
		if len(objects) == maxObjects {
			tooMany = fmt.Errorf("%s has more than %d objects: use a folder of its own", folder, maxObjects)
			return false
		}
		objects = append(objects, Object{URL: URL{folder.Bucket, o.Key}, Bytes: o.Size, Time: o.LastModified, Tag: o.ETag})
		return true
	})
	if err = errors.Join(err, tooMany); err != nil {
		return nil, err
	}
	// Directory buckets of Amazon S3 do not sort, and retention removes the first.
	slices.SortFunc(objects, func(a, b Object) int { return strings.Compare(a.URL.Key, b.URL.Key) })
	return objects, nil
}

// each calls a function for objects until it returns false.
func (c *Client) each(ctx context.Context, u URL, options minio.ListObjectsOptions, do func(minio.ObjectInfo) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for o := range c.quick.ListObjectsIter(ctx, u.Bucket, options) {
		if o.Err != nil {
			return c.explain(u, o.Err)
		}
		if !do(o) {
			return nil
		}
	}
	return ctx.Err()
}

// Stat returns an object with its metadata, or [ErrNotExist].
func (c *Client) Stat(ctx context.Context, u URL) (*Object, error) {
	// HEAD does not distinguish a missing object from a missing bucket or right.
	exists, err := c.Exists(ctx, u)
	if err != nil {
		return nil, err
	}
	if !exists {
		return nil, fmt.Errorf("cannot use %s: %w", u, ErrNotExist)
	}
	o, err := c.quick.StatObject(ctx, u.Bucket, u.Key, minio.StatObjectOptions{})
	if err != nil {
		return nil, c.explain(u, err)
	}
	return &Object{URL: u, Bytes: o.Size, Time: o.LastModified, Tag: o.ETag, Metadata: o.UserMetadata}, nil
}

// Put uploads a file, in parts if it is large. The object appears when all of the file is there. Put returns the tag of the object.
func (c *Client) Put(ctx context.Context, u URL, file *os.File, size int64, metadata map[string]string,
	progress io.Reader) (tag string, err error) {
	info, err := c.patient.PutObject(ctx, u.Bucket, u.Key, file, size, minio.PutObjectOptions{
		PartSize: c.partSize, UserMetadata: metadata, ContentType: "application/octet-stream", Progress: progress,
	})
	if err != nil {
		c.abort(ctx, u)
		return "", c.explain(u, err)
	}
	return info.ETag, nil
}

// abort removes the parts of uploads to an object that failed, also if the context has ended.
func (c *Client) abort(ctx context.Context, u URL) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
	defer cancel()
	c.abortUntilGone(ctx, u, func(string) bool { return true })
}

// abortUntilGone aborts uploads to an object until several lists in a row have none of them. S3 may still accept a part that was on its way
// when its upload was aborted, and asks clients to abort again. If the context ends first, RemoveParts of a later run removes the rest.
func (c *Client) abortUntilGone(ctx context.Context, u URL, match func(id string) bool) {
	const rounds, pause = 3, 500 * time.Millisecond
	for empty := 0; empty < rounds; empty++ {
		var ids []string
		for upload := range c.quick.ListIncompleteUploads(ctx, u.Bucket, u.Key, true) {
			if upload.Err != nil {
				return
			}
			if upload.Key == u.Key && match(upload.UploadID) {
				ids = append(ids, upload.UploadID)
			}
		}
		for _, id := range ids {
			empty = -1
			if err := (minio.Core{Client: c.quick}).AbortMultipartUpload(ctx, u.Bucket, u.Key, id); err != nil && !isNoUpload(err) {
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// Read writes all of an object, if it still has the tag and the size. After a cut it continues where it was.
func (c *Client) Read(ctx context.Context, o *Object, to io.Writer) error {
	var offset int64
	for failures := 0; offset < o.Bytes; {
		n, err := c.readFrom(ctx, o, offset, to)
		if offset += n; n > 0 {
			failures = 0
		}
		var answer minio.ErrorResponse
		var ours *writeError
		switch {
		case err == nil:
			continue
		case errors.As(err, &ours):
			return ours.error
		case errors.As(err, &answer) || failures == fewTries || ctx.Err() != nil:
			return c.explain(o.URL, err)
		}
		failures++
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	return ctx.Err()
}

// readFrom writes an object from an offset on, until a connection ends.
func (c *Client) readFrom(ctx context.Context, o *Object, offset int64, to io.Writer) (n int64, err error) {
	var options minio.GetObjectOptions
	if err := errors.Join(options.SetMatchETag(o.Tag), options.SetRange(offset, o.Bytes-1)); err != nil {
		return 0, err
	}
	// The client's own reader would ask once more for what the caller has asked for.
	core := minio.Core{Client: c.patient}
	body, info, _, err := core.GetObject(ctx, o.URL.Bucket, o.URL.Key, options)
	if err != nil {
		return 0, err
	}
	defer body.Close() //nolint:errcheck // all that counts has been read
	if info.Size != o.Bytes-offset {
		return 0, fmt.Errorf("the server has %d bytes, want %d", info.Size, o.Bytes-offset)
	}
	n, err = io.Copy(marked{to}, io.LimitReader(body, o.Bytes-offset))
	if err == nil && n < o.Bytes-offset {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// marked marks the errors of a writer, which another attempt would not cure.
type marked struct{ io.Writer }

type writeError struct{ error }

func (m marked) Write(p []byte) (int, error) {
	n, err := m.Writer.Write(p)
	if err != nil {
		err = &writeError{err}
	}
	return n, err
}

// Remove removes an object.
func (c *Client) Remove(ctx context.Context, u URL) error {
	return c.explain(u, c.quick.RemoveObject(ctx, u.Bucket, u.Key, minio.RemoveObjectOptions{}))
}

// RemoveIfSame removes an object that has a tag, also if the context has ended: it is what a failed command has left.
func (c *Client) RemoveIfSame(ctx context.Context, u URL, tag string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
	defer cancel()
	o, err := c.Stat(ctx, u)
	if errors.Is(err, ErrNotExist) || (err == nil && o.Tag != tag) {
		return nil
	}
	if err != nil {
		return err
	}
	return c.Remove(ctx, u)
}

// RemoveParts removes the parts of uploads into a folder that began before a time and never became an object: their command was killed.
func (c *Client) RemoveParts(ctx context.Context, folder URL, before time.Time, match func(name string) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	abandoned := map[string]bool{}
	for upload := range c.quick.ListIncompleteUploads(ctx, folder.Bucket, folder.Key, false) {
		if upload.Err != nil {
			return c.explain(folder, upload.Err)
		}
		u := URL{folder.Bucket, upload.Key}
		if upload.Initiated.Before(before) && u == folder.Join(u.Name()) && match(u.Name()) && len(abandoned) < maxObjects {
			abandoned[upload.Key] = true
		}
	}
	for key := range abandoned {
		if err := c.quick.RemoveIncompleteUpload(ctx, folder.Bucket, key); err != nil {
			return c.explain(folder, err)
		}
	}
	return nil
}
