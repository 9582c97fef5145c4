// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"slices"

	"github.com/tripod-k8s/tripod/services/search/store/database"
)

// versionPath is the path of the document with the version of a cluster, beside those of OpenAPI.
const versionPath = "version"

// Schemas are the OpenAPI v3 documents of clusters, one for each group-version: "api/v1", "apis/apps/v1". Clusters of the same version have
// the same documents, of which the database keeps one. Its key is a digest that the store computes, because a member could claim any.

// SchemaVersions returns what a cluster has called the state of each document that is kept of it.
func (s *Registry) SchemaVersions(ctx context.Context, cluster string) (map[string]string, error) {
	return s.schemas(ctx, "SELECT s.path, s.version FROM openapi s JOIN clusters c ON c.id = s.cluster_id WHERE c.name = ?", cluster)
}

// SchemaDigests returns the digests of the documents of a cluster by path, or of all clusters if the name is empty. Of several clusters,
// that of the hub counts, or else that of the one that was added first.
func (s *Registry) SchemaDigests(ctx context.Context, cluster string) (map[string]string, error) {
	if cluster != "" {
		return s.schemas(ctx, "SELECT s.path, s.digest FROM openapi s JOIN clusters c ON c.id = s.cluster_id WHERE c.name = ? AND s.path <> ?",
			cluster, versionPath)
	}
	return s.schemas(ctx, "SELECT r.path, r.digest FROM (SELECT s.path, s.digest, ROW_NUMBER() OVER"+
		" (PARTITION BY s.path ORDER BY CASE WHEN c.name = ? THEN 0 ELSE 1 END, s.cluster_id) AS place"+
		" FROM openapi s JOIN clusters c ON c.id = s.cluster_id WHERE s.path <> ?) r WHERE r.place = 1", s.hub, versionPath)
}

func (s *Registry) schemas(ctx context.Context, text string, values ...any) (found map[string]string, err error) {
	found = map[string]string{}
	err = s.db.Reading(ctx, func(t *database.Tx) error {
		return t.Each(ctx, t.SQL(text, values...), func(scan func(...any) error) error {
			var path, value string
			err := scan(&path, &value)
			found[path] = value
			return err
		})
	})
	return found, err
}

// Schema returns a document, compressed with gzip. It returns ErrNoDocument if the database does not have it.
func (s *Registry) Schema(ctx context.Context, digest string) (compressed []byte, err error) {
	err = s.db.Reading(ctx, func(t *database.Tx) error {
		compressed, err = database.Value[[]byte](ctx, t, t.SQL("SELECT document FROM documents WHERE digest = ?", digest))
		if errors.Is(err, sql.ErrNoRows) {
			return ErrNoDocument
		}
		return err
	})
	return compressed, err
}

// ClusterVersion returns the version that a cluster has reported. It returns ErrNoDocument if the database does not have it.
func (s *Registry) ClusterVersion(ctx context.Context, cluster string) ([]byte, error) {
	var compressed []byte
	err := s.db.Reading(ctx, func(t *database.Tx) (err error) {
		compressed, err = database.Value[[]byte](ctx, t, t.SQL("SELECT d.document FROM documents d JOIN openapi s ON s.digest = d.digest JOIN "+
			"clusters c ON c.id = s.cluster_id"+
			" WHERE c.name = ? AND s.path = ?", cluster, versionPath))
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrNoDocument
	}
	if err != nil {
		return nil, err
	}
	return Decompress(compressed)
}

// PutVersion keeps what a cluster says about its version.
func (s *Registry) PutVersion(ctx context.Context, cluster string, document []byte) error {
	digest := digestOf(document)
	known, err := s.SchemaVersions(ctx, cluster)
	if err != nil || known[versionPath] == digest {
		return err
	}
	return s.PutSchema(ctx, cluster, versionPath, digest, document)
}

func digestOf(document []byte) string {
	sum := sha256.Sum256(document)
	return hex.EncodeToString(sum[:])
}

// PutSchema keeps a document of a cluster, in place of an earlier one. version is what the cluster calls its state.
func (s *Registry) PutSchema(ctx context.Context, cluster, path, version string, document []byte) error {
	digest := digestOf(document)
	var compressed bytes.Buffer
	w := gzip.NewWriter(&compressed)
	if _, err := w.Write(document); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return s.changeSchemas(ctx, cluster, func(t *database.Tx, clusterID int64) error {
		former, err := database.Value[string](ctx, t, t.SQL("SELECT digest FROM openapi WHERE cluster_id = ? AND path = ?", clusterID, path))
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if err := t.All(ctx, t.SQL("DELETE FROM openapi WHERE cluster_id = ? AND path = ?", clusterID, path)); err != nil {
			return err
		}
		_, err = t.Exec(ctx, t.SQL("INSERT INTO openapi (cluster_id, path, version, digest) VALUES (?, ?, ?, ?)", clusterID, path, version,
			digest))
		if err != nil {
			return err
		}
		has, err := database.Value[int](ctx, t, t.SQL("SELECT COUNT(*) FROM documents WHERE digest = ?", digest))
		if err == nil && has == 0 {
			_, err = t.Exec(ctx, t.SQL("INSERT INTO documents (digest, document) VALUES (?, ?)", digest, compressed.Bytes()))
		}
		if err != nil || former == digest {
			return err
		}
		_, err = t.Exec(ctx, t.SQL("DELETE FROM documents WHERE digest = ?"+unnamed, former))
		return err
	})
}

// unnamed is a condition: no cluster has the document any more.
const unnamed = " AND NOT EXISTS (SELECT 1 FROM openapi s WHERE s.digest = documents.digest)"

// RemoveSchemas removes the documents of a cluster that are not among those to keep.
func (s *Registry) RemoveSchemas(ctx context.Context, cluster string, keep map[string]bool) error {
	known, err := s.SchemaVersions(ctx, cluster)
	if err != nil {
		return err
	}
	gone := slices.DeleteFunc(slices.Collect(maps.Keys(known)), func(path string) bool { return keep[path] || path == versionPath })
	if len(gone) == 0 {
		return nil
	}
	return s.removeSchemas(ctx, cluster, gone)
}

// DocumentsAtOnce is how many documents one transaction removes. They may be large.
const DocumentsAtOnce = 5

// RemoveDocuments removes all documents of a cluster.
func (s *Registry) RemoveDocuments(ctx context.Context, cluster string) error {
	known, err := s.SchemaVersions(ctx, cluster)
	if err != nil {
		return err
	}
	return s.removeSchemas(ctx, cluster, slices.Collect(maps.Keys(known)))
}

// removeSchemas unlinks some documents from a cluster, and deletes the documents that no other cluster has.
func (s *Registry) removeSchemas(ctx context.Context, cluster string, paths []string) error {
	slices.Sort(paths)
	for part := range slices.Chunk(paths, DocumentsAtOnce) {
		err := s.db.WithinThrottled(ctx, func(t *database.Tx) (int, error) {
			if _, err := t.Revisions(ctx, 0); err != nil { // as in changeSchemas
				return 0, err
			}
			var digests []string
			find := database.List(t.SQL("SELECT digest FROM openapi WHERE "+OfCluster+" AND path IN ", cluster), part)
			err := t.Each(ctx, find, func(scan func(...any) error) error {
				digests = append(digests, "")
				return scan(&digests[len(digests)-1])
			})
			if err != nil || len(digests) == 0 {
				return 0, err
			}
			return len(part), t.All(ctx,
				database.List(t.SQL("DELETE FROM openapi WHERE "+OfCluster+" AND path IN ", cluster), part),
				database.List(t.SQL("DELETE FROM documents WHERE digest IN "), digests).Add(unnamed))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// changeSchemas runs a function while no other transaction writes, so that no document goes which another one begins to name.
func (s *Registry) changeSchemas(ctx context.Context, cluster string, change func(t *database.Tx, clusterID int64) error) error {
	return s.db.Within(ctx, func(t *database.Tx) error {
		if _, err := t.Revisions(ctx, 0); err != nil {
			return err
		}
		clusterID, err := EnsureCluster(ctx, t, cluster)
		if err != nil {
			return err
		}
		return change(t, clusterID)
	})
}

// Decompress returns a document as the cluster has sent it.
func Decompress(compressed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
