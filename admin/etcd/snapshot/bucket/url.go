// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"fmt"
	"path"
	"strings"

	"github.com/minio/minio-go/v7/pkg/s3utils"
)

const scheme = "s3://"

// URL is the place of an object, or of a folder of objects.
type URL struct {
	Bucket string
	// Key is the name of the object in the bucket. That of a folder ends with a slash, or is empty.
	Key string
}

// IsURL reports whether a location is meant to be in a bucket. Other locations are files.
func IsURL(location string) bool { return strings.HasPrefix(location, scheme) }

// Parse parses s3://BUCKET/KEY.
func Parse(location string) (URL, error) {
	name, key, _ := strings.Cut(strings.TrimPrefix(location, scheme), "/")
	u := URL{Bucket: name, Key: key}
	if !IsURL(location) {
		return u, fmt.Errorf("%q is not a URL such as s3://BUCKET/KEY", location)
	}
	if err := s3utils.CheckValidBucketNameStrict(name); err != nil {
		return u, fmt.Errorf("%q has no name of a bucket, as in s3://BUCKET/KEY: %w", location, err)
	}
	if key == "" {
		return u, nil
	}
	if err := s3utils.CheckValidObjectNamePrefix(key); err != nil {
		return u, fmt.Errorf("%q is not a URL such as s3://BUCKET/KEY: %w", location, err)
	}
	// Many servers and tools would clean such a key, and then look elsewhere.
	if strings.TrimSuffix(key, "/") != strings.TrimPrefix(path.Clean("/"+key), "/") {
		return u, fmt.Errorf("%q has an empty element, . or .. in its path", location)
	}
	return u, nil
}

// ParseObject parses the URL of an object.
func ParseObject(location string) (URL, error) {
	u, err := Parse(location)
	if err == nil && (u.Key == "" || strings.HasSuffix(u.Key, "/")) {
		err = fmt.Errorf("%q names a folder: add the name of the object, as in s3://BUCKET/PREFIX/NAME.db", location)
	}
	return u, err
}

// ParseFolder parses the URL of a folder, with or without a slash at its end.
func ParseFolder(location string) (URL, error) {
	u, err := Parse(location)
	if u.Key != "" && !strings.HasSuffix(u.Key, "/") {
		u.Key += "/"
	}
	return u, err
}

// Join returns the URL of an object in a folder.
func (u URL) Join(name string) URL { return URL{Bucket: u.Bucket, Key: u.Key + name} }

// Name is the last element of the key.
func (u URL) Name() string { return path.Base(u.Key) }

func (u URL) String() string { return scheme + u.Bucket + "/" + u.Key }
