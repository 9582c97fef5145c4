// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/snapshot"
	"go.uber.org/zap"

	"github.com/tripod-k8s/tripod/admin/etcd/access"
	"github.com/tripod-k8s/tripod/admin/etcd/snapshot/bucket"
)

const (
	// answerTimeout is how long an etcd may take for its first answer.
	answerTimeout = 10 * time.Second
	// progressEvery is how often Progress gets the size received so far.
	progressEvery = 10 * time.Second
	// partial is what the client of etcd appends to the name of an incomplete file.
	partial = ".part"
)

// SaveOptions say which etcd to save, and where.
type SaveOptions struct {
	// Endpoints are URLs of members of one etcd. The first that answers gives the snapshot.
	Endpoints []string
	// CAFile, CertFile and KeyFile secure the connection.
	CAFile, CertFile, KeyFile string
	// File is the file to write. If empty, it is NAME-TIME.db in Directory. Both may be URLs of a bucket: s3://BUCKET/KEY.
	File, Directory, Name string
	// Keep is how many snapshots of the name stay in the directory, the newest ones. 0 keeps all.
	Keep int
	// Server is that of the bucket.
	Server bucket.Server
	// ResumeDir is a directory of this machine that keeps a snapshot until its upload to a bucket has ended. Save continues an upload of which
	// it finds the snapshot there. Empty means that an upload that fails leaves nothing.
	ResumeDir string
	// Progress gets a line about each step.
	Progress func(line string)
}

// Saved is a snapshot that was saved.
type Saved struct {
	File   string `json:"file"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	// Revision is a revision that the snapshot contains. It may contain later ones.
	Revision int64 `json:"revision"`
	// EtcdVersion is the version of the member, which etcd reports from 3.6 on.
	EtcdVersion string `json:"etcdVersion,omitempty"`
	// ClusterID is that of the etcd, in hexadecimal digits.
	ClusterID string `json:"clusterID,omitempty"`
	// Removed are the older snapshots that were removed.
	Removed []string `json:"removed,omitempty"`
}

// Save writes a snapshot. The file appears only when it is complete and its hash is correct. In a bucket, an object appears when it is
// complete, and stays only if it has been read back with the same hash.
func Save(ctx context.Context, o SaveOptions) (*Saved, error) {
	if bucket.IsURL(o.File) || bucket.IsURL(o.Directory) {
		return o.saveToBucket(ctx)
	}
	if o.ResumeDir != "" {
		return nil, errors.New("--resume-dir is for snapshots in a bucket (s3://)")
	}
	return o.saveFile(ctx)
}

func (o SaveOptions) saveFile(ctx context.Context) (*Saved, error) {
	path, err := o.path(time.Now())
	if err != nil {
		return nil, err
	}
	config, err := o.config()
	if err != nil {
		return nil, err
	}
	endpoint, state, err := choose(ctx, config)
	if err != nil {
		return nil, err
	}
	config.Endpoints = []string{endpoint}
	o.Progress("saving a snapshot of etcd at " + endpoint)

	// The file has another name until its hash has been checked.
	unchecked := path + ".unchecked"
	defer os.Remove(unchecked) //nolint:errcheck // it is gone when all went well
	stop := o.follow(unchecked + partial)
	version, err := snapshot.SaveWithVersion(ctx, zap.NewNop(), config, unchecked)
	stop()
	if err != nil {
		return nil, fmt.Errorf("cannot save a snapshot of etcd at %s: %w", endpoint, err)
	}
	size, hash, err := verify(unchecked)
	if err != nil {
		return nil, fmt.Errorf("the snapshot of etcd at %s was damaged on its way: %w", endpoint, err)
	}
	if err := os.Rename(unchecked, path); err != nil {
		return nil, err
	}
	saved := &Saved{File: path, Bytes: size, SHA256: hash, Revision: state.GetRevision(), EtcdVersion: version,
		ClusterID: clusterID(state.GetClusterId())}
	if o.File == "" && o.Keep > 0 {
		saved.Removed, err = prune(o.Directory, o.Name, o.Keep)
	}
	return saved, err
}

// path returns the file to write, or an error if it cannot be written.
func (o SaveOptions) path(now time.Time) (string, error) {
	path := o.File
	switch {
	case (o.File == "") == (o.Directory == ""):
		return "", errors.New("say where to save: either a file or --directory")
	case o.File == "":
		path = filepath.Join(o.Directory, fileName(o.Name, now))
	}
	if _, err := os.Lstat(path); err == nil {
		return "", fmt.Errorf("%s exists, and is not overwritten", path)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return "", fmt.Errorf("cannot save in %s: the directory does not exist", filepath.Dir(path))
	}
	return path, nil
}

func (o SaveOptions) config() (clientv3.Config, error) {
	config := clientv3.Config{Endpoints: o.Endpoints, Logger: zap.NewNop(), DialTimeout: answerTimeout}
	if len(o.Endpoints) == 0 {
		return config, errors.New("say where etcd is with --endpoints")
	}
	if o.CAFile != "" || o.CertFile != "" || o.KeyFile != "" {
		files := transport.TLSInfo{TrustedCAFile: o.CAFile, CertFile: o.CertFile, KeyFile: o.KeyFile}
		tlsConfig, err := files.ClientConfig()
		if err != nil {
			return config, fmt.Errorf("cannot use --cacert, --cert and --key: %w", err)
		}
		config.TLS = tlsConfig
	}
	return config, nil
}

// choose returns a member that has the state of the majority, and this state. A member without connection would give an old one.
func choose(ctx context.Context, config clientv3.Config) (endpoint string, state *etcdserverpb.ResponseHeader, err error) {
	var errs []error
	for _, endpoint := range config.Endpoints {
		state, err := ask(ctx, config, endpoint)
		if err == nil {
			return endpoint, state, nil
		}
		if ctx.Err() != nil {
			return "", nil, ctx.Err()
		}
		errs = append(errs, err)
	}
	return "", nil, errors.Join(errs...)
}

func ask(ctx context.Context, config clientv3.Config, endpoint string) (state *etcdserverpb.ResponseHeader, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("--endpoints: %q is not a URL such as https://127.0.0.1:2379", endpoint)
	}
	// The client itself would retry silently.
	connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return nil, fmt.Errorf("etcd at %s cannot be reached: %w", endpoint, err)
	}
	connection.Close() //nolint:errcheck // nothing was sent
	config.Endpoints = []string{endpoint}
	client, err := clientv3.New(config)
	if err != nil {
		return nil, fmt.Errorf("cannot use etcd at %s: %w", endpoint, err)
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	answer, err := client.Get(ctx, "/", clientv3.WithCountOnly())
	if err != nil {
		return nil, fmt.Errorf("etcd at %s does not answer (certificates, or no majority of members?): %w", endpoint, err)
	}
	if err := access.CheckHeader(config.Endpoints, answer.Header); err != nil {
		return nil, err
	}
	return answer.Header, nil
}

// follow reports how much was received, until stop is called.
func (o SaveOptions) follow(file string) (stop func()) {
	return o.report(func() string {
		info, err := os.Stat(file)
		if err != nil {
			return ""
		}
		return fmt.Sprintf("%d MiB received", info.Size()>>20)
	})
}

// report reports from time to time, until stop is called.
func (o SaveOptions) report(line func() string) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(progressEvery)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				if text := line(); text != "" {
					o.Progress(text)
				}
			}
		}
	}()
	return func() { close(done); <-ended }
}
