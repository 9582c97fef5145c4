// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"strings"
)

const (
	// extension ends the names of files with objects.
	extension = ".yaml"
	// lockFile is what a process locks while it uses a directory.
	lockFile = ".lock"
	// gateFile has the name of the move that has closed the gate of the resource. Without a move, it does not exist.
	gateFile = ".gate"
	// unfinished begins the names of files that are being written. Names of objects never begin with ".".
	unfinished = ".unfinished-"
	// longest is the most bytes of a name. File systems allow 255, with the extension.
	longest = 240
)

// fileOf returns the path of the file of an object.
func (d *directory) fileOf(key string) (string, error) {
	rest, ok := strings.CutPrefix(key, d.resource.Prefix)
	parts := strings.Split(rest, "/")
	if !ok || len(parts) > 2 || parts[len(parts)-1] == "" {
		return "", fmt.Errorf("%q is no key of an object", key)
	}
	for i := range parts {
		parts[i] = escape(parts[i])
	}
	return path.Join(parts...) + extension, nil
}

// escape returns a name that any file system takes for a file, and takes for no other one. Letters that are large are escaped, because
// some file systems do not distinguish them from small ones.
func escape(name string) string {
	if name == "" {
		return "%"
	}
	var escaped strings.Builder
	for i := range len(name) {
		c := name[i]
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' && i > 0 {
			escaped.WriteByte(c)
		} else {
			fmt.Fprintf(&escaped, "%%%02x", c)
		}
	}
	if escaped.Len() <= longest {
		return escaped.String()
	}
	const digest = "%%" // escapes never have it
	sum := sha256.Sum256([]byte(name))
	return escaped.String()[:longest-len(digest)-hex.EncodedLen(len(sum))] + digest + hex.EncodeToString(sum[:])
}

// hidden reports whether a file is that of a program, such as an editor, and no object.
func hidden(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "#") || strings.HasSuffix(name, "~")
}
