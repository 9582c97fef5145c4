// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/minio/minio-go/v7"
)

// ErrNotExist is that of an object that does not exist.
var ErrNotExist = errors.New("it does not exist")

// rights are those that the commands need, in the names of S3. To continue an upload takes s3:ListMultipartUploadParts, too.
const rights = "s3:ListBucket, s3:GetObject, s3:PutObject, s3:DeleteObject, s3:AbortMultipartUpload and s3:ListBucketMultipartUploads"

// explain returns an error of one line that says what a person can do.
func (c *Client) explain(u URL, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	var answer minio.ErrorResponse
	if !errors.As(err, &answer) {
		return fmt.Errorf("cannot reach S3 at %s: %w", c.endpoint, plain(err))
	}
	switch answer.Code {
	case minio.NoSuchBucket:
		return fmt.Errorf("S3 at %s has no bucket %s: create it first", c.endpoint, u.Bucket)
	case minio.NoSuchKey:
		return fmt.Errorf("cannot use %s: %w", u, ErrNotExist)
	case minio.AccessDenied:
		return fmt.Errorf("S3 at %s denies access to %s: the credentials need %s", c.endpoint, u, rights)
	case minio.PreconditionFailed:
		return fmt.Errorf("%s was replaced meanwhile: save again, under another name", u)
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "AuthorizationHeaderMalformed":
		return fmt.Errorf("S3 at %s does not accept the credentials or the region (%s)", c.endpoint, answer.Code)
	}
	if answer.StatusCode == http.StatusForbidden {
		return fmt.Errorf("S3 at %s denies access to %s (%s): the credentials need %s", c.endpoint, u, answer.Code, rights)
	}
	return fmt.Errorf("S3 at %s cannot serve %s: %s: %w", c.endpoint, u, answer.Code, oneLine([]error{answer}))
}

// plain removes the method and the URL of a request from an error: a URL may have a query of many lines.
func plain(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err
	}
	return oneLine([]error{err})
}

// line is an error whose text has one line of bounded length.
type line struct{ errs []error }

func oneLine(errs []error) error { return line{errs} }

func (l line) Unwrap() []error { return l.errs }

func (l line) Error() string {
	texts := make([]string, len(l.errs))
	for i, err := range l.errs {
		texts[i] = strings.Join(strings.Fields(err.Error()), " ")
	}
	const longest = 500
	text := strings.Join(texts, "; ")
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "..."
	}
	return text
}
