// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"context"
	"crypto/md5" //nolint:gosec // S3 identifies parts by it. The whole object is verified by its SHA-256
	"encoding/hex"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"
)

const (
	// maxParts is how many parts S3 allows, and listedParts how many of them it lists at once.
	maxParts, listedParts = 10_000, 1000
	// parallelParts is how many parts are sent at the same time.
	parallelParts = 4
)

// Upload is an upload in parts that another process can continue.
type Upload struct {
	ID       string `json:"id,omitempty"`
	PartSize int64  `json:"partSize,omitempty"`
}

// Resumable is a file to upload.
type Resumable struct {
	File     *os.File
	Size     int64
	Metadata map[string]string
	// Before is the upload of an earlier process. Without an ID, there was none.
	Before Upload
	// Begun gets a new upload before its first part is sent.
	Begun func(Upload) error
	// Done gets the number of bytes of each part that the server has, whether it was sent now or before.
	Done func(bytes int64)
}

// Resume uploads a file in parts. It continues the upload from before if the server still has it, and sends only the parts that are missing
// or have another hash. If it fails, the parts stay for the next attempt, or for [Client.Abort]. It returns the tag of the object.
//
// If the credentials may not list parts, it begins a new upload: that right is optional.
func (c *Client) Resume(ctx context.Context, u URL, r Resumable) (tag string, err error) {
	there, upload, err := c.parts(ctx, u, r.Before)
	if isDenied(err) {
		upload, err = Upload{}, c.Abort(ctx, u, r.Before)
	}
	if err == nil && upload.ID == "" {
		upload, err = c.begin(ctx, u, r)
	}
	if err != nil {
		return "", c.explain(u, err)
	}
	parts := make([]minio.CompletePart, max(1, (r.Size+upload.PartSize-1)/upload.PartSize))
	group, sending := errgroup.WithContext(ctx)
	group.SetLimit(parallelParts)
	for i := range parts {
		group.Go(func() error {
			offset := int64(i) * upload.PartSize
			section := io.NewSectionReader(r.File, offset, min(upload.PartSize, r.Size-offset))
			part, err := c.sendPart(sending, u, upload.ID, section, there[i+1], i+1)
			if err != nil {
				return err
			}
			parts[i] = minio.CompletePart{PartNumber: i + 1, ETag: part}
			r.Done(section.Size())
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return "", c.explain(u, err)
	}
	info, err := minio.Core{Client: c.patient}.CompleteMultipartUpload(ctx, u.Bucket, u.Key, upload.ID, parts, minio.PutObjectOptions{})
	return info.ETag, c.explain(u, err)
}

// begin begins an upload.
func (c *Client) begin(ctx context.Context, u URL, r Resumable) (upload Upload, err error) {
	upload.PartSize = int64(c.partSize)
	for upload.PartSize*maxParts < r.Size {
		upload.PartSize *= 2
	}
	upload.ID, err = minio.Core{Client: c.quick}.NewMultipartUpload(ctx, u.Bucket, u.Key, minio.PutObjectOptions{
		UserMetadata: r.Metadata, ContentType: "application/octet-stream",
	})
	if err == nil {
		err = r.Begun(upload)
	}
	return upload, err
}

// parts returns the parts of an upload by their numbers. If the server no longer has the upload, it returns one without an ID.
func (c *Client) parts(ctx context.Context, u URL, upload Upload) (map[int]minio.ObjectPart, Upload, error) {
	there := map[int]minio.ObjectPart{}
	if upload.ID == "" || upload.PartSize <= 0 {
		return there, Upload{}, nil
	}
	for marker := 0; ; {
		list, err := minio.Core{Client: c.quick}.ListObjectParts(ctx, u.Bucket, u.Key, upload.ID, marker, listedParts)
		if isNoUpload(err) {
			return nil, Upload{}, nil
		}
		if err != nil {
			return nil, upload, err
		}
		for _, part := range list.ObjectParts {
			there[part.PartNumber] = part
		}
		if !list.IsTruncated || list.NextPartNumberMarker <= marker {
			return there, upload, nil
		}
		marker = list.NextPartNumberMarker
	}
}

func isNoUpload(err error) bool { return hasCode(err, minio.NoSuchUpload) }

func isDenied(err error) bool { return hasCode(err, minio.AccessDenied) }

func hasCode(err error, code string) bool {
	var answer minio.ErrorResponse
	return errors.As(err, &answer) && answer.Code == code
}

// sendPart returns the tag of a part, which it sends unless it is there. With some encryptions of a server, tags are no hashes: then it
// sends the part again.
func (c *Client) sendPart(
	ctx context.Context, u URL, id string, section *io.SectionReader, there minio.ObjectPart, number int,
) (tag string, err error) {
	if there.PartNumber == number && there.Size == section.Size() {
		hash := md5.New() //nolint:gosec // as above
		if _, err := io.Copy(hash, section); err != nil {
			return "", err
		}
		if strings.Trim(there.ETag, `"`) == hex.EncodeToString(hash.Sum(nil)) {
			return there.ETag, nil
		}
		if _, err := section.Seek(0, io.SeekStart); err != nil {
			return "", err
		}
	}
	part, err := minio.Core{Client: c.patient}.PutObjectPart(ctx, u.Bucket, u.Key, id, number, section, section.Size(),
		minio.PutObjectPartOptions{})
	return part.ETag, err
}

// Abort removes the parts of an upload, if there are any, and those that were on their way.
func (c *Client) Abort(ctx context.Context, u URL, upload Upload) error {
	if upload.ID == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, cleanTimeout)
	defer cancel()
	err := minio.Core{Client: c.quick}.AbortMultipartUpload(ctx, u.Bucket, u.Key, upload.ID)
	if err != nil && !isNoUpload(err) {
		return c.explain(u, err)
	}
	c.abortUntilGone(ctx, u, func(id string) bool { return id == upload.ID })
	return nil
}
