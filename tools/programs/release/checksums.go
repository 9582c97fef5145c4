// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// checksumsFile has the form that `sha256sum --check` reads.
const checksumsFile = "checksums.txt"

// writeChecksums writes the checksums of all files in directory.
func writeChecksums(directory string) error {
	entries, err := os.ReadDir(directory) // sorted by name
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(directory, checksumsFile), func(w io.Writer) error {
		for _, entry := range entries {
			if entry.Name() == checksumsFile {
				continue
			}
			sum, err := checksum(filepath.Join(directory, entry.Name()))
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(w, "%s  %s\n", sum, entry.Name()); err != nil {
				return err
			}
		}
		return nil
	})
}

// checksum returns the SHA-256 of a file in hexadecimal.
func checksum(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // only read
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
