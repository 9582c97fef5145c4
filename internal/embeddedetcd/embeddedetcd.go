// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package embeddedetcd runs an etcd of one member inside a process of its own, for `tripod up`.
package embeddedetcd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

const (
	// lockTimeout is how long to wait for the database when another process has it open.
	lockTimeout = 5 * time.Second
	// peerURL identifies the only member to itself; nothing listens there.
	peerURL = "http://localhost:2380"
)

// Options say how to run etcd.
type Options struct {
	// DataDir is where etcd keeps its data.
	DataDir string
	// ClientURL is where etcd serves, as in https://127.0.0.1:2379.
	ClientURL string
	// CertFile and KeyFile are the serving certificate; clients must have one signed by TrustedCAFile. They are
	// needed with an https URL.
	CertFile, KeyFile, TrustedCAFile string
	// LogLevel is the least severe level that is logged: debug, info, warn, error.
	LogLevel string
}

// Run runs etcd until ctx ends.
func Run(ctx context.Context, o Options) error {
	config, err := o.config()
	if err != nil {
		return err
	}
	release, err := lock(o.DataDir)
	if err != nil {
		return err
	}
	defer release()
	server, err := embed.StartEtcd(config)
	if err != nil {
		return explain(err, o)
	}
	defer server.Close()
	select {
	case <-ctx.Done():
		return nil
	case err := <-server.Err():
		return fmt.Errorf("etcd stopped: %w", err)
	case <-server.Server.StopNotify():
		return errors.New("etcd stopped by itself")
	}
}

func (o Options) config() (*embed.Config, error) {
	client, err := url.Parse(o.ClientURL)
	if err != nil || client.Host == "" {
		return nil, fmt.Errorf("--client-url %q is not of the form https://host:port", o.ClientURL)
	}
	peer, err := url.Parse(peerURL)
	if err != nil {
		return nil, err
	}
	config := embed.NewConfig()
	config.Name = "tripod"
	config.Dir = o.DataDir
	config.LogLevel = o.LogLevel
	config.LogOutputs = []string{embed.StdErrLogOutput}
	config.ListenClientUrls = []url.URL{*client}
	config.AdvertiseClientUrls = []url.URL{*client}
	config.ListenPeerUrls = nil
	config.AdvertisePeerUrls = []url.URL{*peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.ClientTLSInfo.CertFile = o.CertFile
	config.ClientTLSInfo.KeyFile = o.KeyFile
	config.ClientTLSInfo.TrustedCAFile = o.TrustedCAFile
	config.ClientTLSInfo.ClientCertAuth = o.TrustedCAFile != ""
	return config, nil
}

// lock makes sure that no other etcd has the data open, because etcd itself would wait for it without an end. The lock
// of the database is the one that bbolt takes.
func lock(dataDir string) (release func(), err error) {
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the data directory of etcd: %w", err)
	}
	path := filepath.Join(dataDir, "member", "snap", "db")
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot open the database of etcd: %w", err)
	}
	defer file.Close() //nolint:errcheck // it was only opened to be locked
	for deadline := time.Now().Add(lockTimeout); ; time.Sleep(50 * time.Millisecond) {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil || time.Now().After(deadline) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("another etcd uses the data in %s", dataDir)
	}
	return func() {}, nil
}

func explain(err error, o Options) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("the address of etcd is already in use: %s", o.ClientURL)
	}
	return fmt.Errorf("cannot start etcd with the data in %s: %w", o.DataDir, err)
}
