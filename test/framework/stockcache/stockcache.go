// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stockcache keeps the results of a stock kube-apiserver in a long suite until the version of Kubernetes or the suite changes.
package stockcache

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Cache is a folder with results.
type Cache struct {
	dir, version string
}

// Open returns the cache in dir for the version of the kube-apiserver at this path.
func Open(ctx context.Context, dir, apiserver string) (*Cache, error) {
	version, err := exec.CommandContext(ctx, apiserver, "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("ask for the version of stock (make test-assets?): %w", err)
	}
	fields := bytes.Fields(version)
	if len(fields) == 0 {
		return nil, fmt.Errorf("%s --version says nothing", apiserver)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make a place for the results of stock: %w", err)
	}
	return &Cache{dir: dir, version: string(fields[len(fields)-1])}, nil
}

// Get reads the results of stock in exactly these cases. It returns false if they are unknown.
func (c *Cache) Get(cases []string, results any) (bool, error) {
	data, err := os.ReadFile(c.path(cases))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, results)
	}
	if err != nil {
		return false, fmt.Errorf("read the results of stock: %w", err)
	}
	return true, nil
}

// Put keeps the results of stock in these cases.
func (c *Cache) Put(cases []string, results any) error {
	data, err := json.MarshalIndent(results, "", "  ")
	if err == nil {
		err = os.WriteFile(c.path(cases), data, 0o644)
	}
	if err != nil {
		return fmt.Errorf("keep the results of stock: %w", err)
	}
	return nil
}

func (c *Cache) path(cases []string) string {
	key := sha256.Sum256([]byte(strings.Join(slices.Sorted(slices.Values(cases)), "\n")))
	return filepath.Join(c.dir, fmt.Sprintf("stock-%s-%x.json", c.version, key[:8]))
}
