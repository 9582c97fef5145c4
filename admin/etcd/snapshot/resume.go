// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/tripod-k8s/tripod/admin/etcd/snapshot/bucket"
	"github.com/tripod-k8s/tripod/base/service/atomicfile"
)

const (
	// resumeWithin is how old a snapshot may be whose upload is continued. An older one is worth less than a new one.
	resumeWithin = 6 * time.Hour
	// keptSnapshot and keptState are files of the directory in which a snapshot is kept until its upload has ended.
	keptSnapshot, keptState, keptLock = "snapshot" + extension, "upload.json", "upload"
)

// kept is a snapshot whose upload has not ended.
type kept struct {
	dir string
	// Began is when it was saved. Saved has the URL at which it is to be.
	Began time.Time `json:"began"`
	Saved Saved     `json:"saved"`
	// Upload is empty if none has begun.
	Upload bucket.Upload `json:"upload"`
}

func (k *kept) file() string { return filepath.Join(k.dir, keptSnapshot) }

// write makes the state survive the process.
func (k *kept) write() error {
	data, err := json.Marshal(k)
	if err != nil {
		return err
	}
	if err := atomicfile.Write(filepath.Join(k.dir, keptState), data); err != nil {
		return fmt.Errorf("cannot keep the state of the upload: %w", err)
	}
	return nil
}

// remove removes the state, and then the snapshot. A state without its snapshot would look like an upload that cannot continue; the next
// command overwrites a snapshot without state.
func (k *kept) remove() error {
	for _, path := range []string{filepath.Join(k.dir, keptState), k.file()} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// readKept returns what an earlier command has kept in a directory, or nil.
func readKept(dir string) (*kept, error) {
	data, err := os.ReadFile(filepath.Join(dir, keptState))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	k := &kept{}
	if err == nil {
		err = json.Unmarshal(data, k)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read which upload is to be continued: %w (remove %s to give it up)", err, dir)
	}
	k.dir = dir
	return k, nil
}

// uploadKept saves a snapshot to a bucket, or continues the upload of the one that an earlier command kept. If it fails, the next command
// with the same directory continues.
func (o SaveOptions) uploadKept(ctx context.Context, client *bucket.Client) (*Saved, error) {
	if err := os.MkdirAll(o.ResumeDir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the directory of --resume-dir: %w", err)
	}
	unlock, err := lock(filepath.Join(o.ResumeDir, keptLock))
	if errors.Is(err, errLocked) {
		return nil, fmt.Errorf("another command uploads from %s: wait until it has ended", o.ResumeDir)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot use %s: %w", o.ResumeDir, err)
	}
	defer unlock()
	k, err := o.takeUp(ctx, client)
	if err == nil && k == nil {
		k, err = o.keep(ctx, client)
	}
	if err != nil {
		return nil, err
	}
	to, err := bucket.ParseObject(k.Saved.File)
	if err != nil {
		return nil, err
	}
	tag, err := o.resume(ctx, client, to, k)
	if err == nil {
		err = o.readBack(ctx, client, to, tag, &k.Saved)
	}
	switch {
	case errors.As(err, &damagedError{}):
		err = discard(ctx, client, to, tag, err)
		if left := k.remove(); left != nil {
			err = fmt.Errorf("%w; remove %s yourself: %w", err, o.ResumeDir, left)
		}
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w (for %.0f hours, the same command continues; a later one begins anew)", err, resumeWithin.Hours())
	}
	return &k.Saved, k.remove()
}

// takeUp returns what an earlier command has kept, unless it is too old, or damaged and not yet in the bucket. Then it removes the parts of
// its upload.
func (o SaveOptions) takeUp(ctx context.Context, client *bucket.Client) (*kept, error) {
	k, err := readKept(o.ResumeDir)
	if err != nil || k == nil {
		return nil, err
	}
	to, err := o.mayContinue(k)
	if err != nil {
		return nil, err
	}
	if age := time.Since(k.Began); age > resumeWithin || age < 0 {
		return nil, o.giveUp(ctx, client, to, k, "it began at "+k.Began.Format(time.RFC3339))
	}
	if size, hash, err := verify(k.file()); err != nil || size != k.Saved.Bytes || hash != k.Saved.SHA256 {
		object, err := k.uploaded(ctx, client, to)
		if err != nil {
			return nil, err
		}
		if object == nil {
			return nil, o.giveUp(ctx, client, to, k, k.file()+" is not the snapshot that was kept")
		}
	}
	o.Progress(fmt.Sprintf("continuing the upload of %s, which began at %s", to, k.Began.Format(time.RFC3339)))
	return k, nil
}

// uploaded returns the object if all of the upload is there, or nil. It may never have been read back.
func (k *kept) uploaded(ctx context.Context, client *bucket.Client, to bucket.URL) (*bucket.Object, error) {
	object, err := client.Stat(ctx, to)
	if errors.Is(err, bucket.ErrNotExist) {
		return nil, nil
	}
	if err != nil || object.Metadata[metadataSHA256] != k.Saved.SHA256 {
		return nil, err
	}
	return object, nil
}

// giveUp removes what is left of an upload. A snapshot that is whole stays in the bucket.
func (o SaveOptions) giveUp(ctx context.Context, client *bucket.Client, to bucket.URL, k *kept, reason string) error {
	o.Progress(fmt.Sprintf("giving up the upload of %s: %s", to, reason))
	if err := client.Abort(ctx, to, k.Upload); err != nil {
		return err
	}
	object, err := k.uploaded(ctx, client, to)
	if err != nil {
		return err
	}
	if object != nil {
		if err := o.keepWhole(ctx, client, object, k); err != nil {
			return err
		}
	}
	return k.remove()
}

// keepWhole removes an object that is not the snapshot that was sent. One that cannot be read stays.
func (o SaveOptions) keepWhole(ctx context.Context, client *bucket.Client, object *bucket.Object, k *kept) error {
	var err error = damagedError{fmt.Errorf("it has %d bytes, want %d", object.Bytes, k.Saved.Bytes)}
	if object.Bytes == k.Saved.Bytes {
		err = o.readBack(ctx, client, object.URL, object.Tag, &k.Saved)
	}
	switch {
	case err == nil:
		o.Progress(object.URL.String() + " is whole, and stays")
	case errors.As(err, &damagedError{}):
		o.Progress(fmt.Sprintf("removing %s: %s", object.URL, err))
		return client.RemoveIfSame(ctx, object.URL, object.Tag)
	case ctx.Err() != nil:
		return err
	default: // it may be in an archive, or encrypted with a key that is gone: later snapshots must not wait for that
		o.Progress(fmt.Sprintf("%s stays, and was not verified: %s", object.URL, err))
	}
	return nil
}

// mayContinue refuses what is kept for another place than the command is about.
func (o SaveOptions) mayContinue(k *kept) (bucket.URL, error) {
	to, err := bucket.ParseObject(k.Saved.File)
	if err != nil {
		return to, err
	}
	asked, folder, err := o.object(k.Began)
	if err != nil {
		return to, err
	}
	same := asked == to
	if o.File == "" {
		same = to == folder.Join(to.Name()) && isSnapshot(to.Name(), o.Name)
	}
	if !same {
		return to, fmt.Errorf("%s has the upload of %s: finish that one, or use another directory", o.ResumeDir, to)
	}
	return to, nil
}

// keep saves a new snapshot into the directory.
func (o SaveOptions) keep(ctx context.Context, client *bucket.Client) (*kept, error) {
	began := time.Now()
	to, _, err := o.object(began)
	if err != nil {
		return nil, err
	}
	if err := refuseExisting(ctx, client, to); err != nil {
		return nil, err
	}
	k := &kept{dir: o.ResumeDir, Began: began}
	if err := k.remove(); err != nil { // a command may have ended before it wrote its state
		return nil, err
	}
	file := o
	file.File, file.Directory = k.file(), ""
	saved, err := file.saveFile(ctx)
	if err != nil {
		return nil, err
	}
	k.Saved = *saved
	k.Saved.File = to.String()
	return k, errors.Join(syncPath(k.file()), k.write())
}

// resume uploads what is kept. The object may be there already: a command may have ended before it removed the state.
func (o SaveOptions) resume(ctx context.Context, client *bucket.Client, to bucket.URL, k *kept) (tag string, err error) {
	switch object, err := k.uploaded(ctx, client, to); {
	case err != nil:
		return "", err
	case object != nil:
		return object.Tag, nil
	}
	if err := refuseExisting(ctx, client, to); err != nil {
		return "", err
	}
	file, err := os.Open(k.file())
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // it was read
	var there atomic.Int64
	stop := o.report(func() string { return fmt.Sprintf("%d of %d MiB are there", there.Load()>>20, k.Saved.Bytes>>20) })
	defer stop()
	return client.Resume(ctx, to, bucket.Resumable{
		File: file, Size: k.Saved.Bytes, Metadata: k.Saved.metadata(), Before: k.Upload,
		Begun: func(begun bucket.Upload) error {
			if k.Upload.ID != "" {
				o.Progress("sending all parts again: the server no longer has them, or does not list them (s3:ListMultipartUploadParts)")
			}
			k.Upload = begun
			return k.write()
		},
		Done: func(bytes int64) { there.Add(bytes) },
	})
}
