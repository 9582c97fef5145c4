// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/tripod-k8s/tripod/admin/etcd/snapshot"
)

// restore returns the text for the user.
func restore(ctx context.Context, o snapshot.RestoreOptions, replace bool) (string, error) {
	restored := fmt.Sprintf("%s restored as %s in %s", o.File, o.Name, o.DataDir)
	if !replace {
		return restored, snapshot.Restore(ctx, o)
	}
	made, kept, err := snapshot.Replace(ctx, o)
	switch {
	case err != nil:
		return "", err
	case !made:
		return fmt.Sprintf("%s is of %s already", o.DataDir, o.File), nil
	case kept != "":
		restored += "; what was there is in " + kept
	}
	return restored, nil
}

// printPlan prints what a restore would do.
func printPlan(out io.Writer, p *snapshot.Plan) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s, revision %s, SHA-256 %s, of the etcd cluster %s\n", p.Snapshot.File, mebibytes(p.Snapshot.Bytes),
		orUnknown(p.Snapshot.Revision), orUnchecked(p.Snapshot.SHA256), orDash(p.Snapshot.ClusterID))
	switch {
	case p.RestoredBefore:
		fmt.Fprintf(&text, "%s is of this snapshot already, and would stay\n", p.DataDir)
	case p.Existing != nil:
		fmt.Fprintf(&text, "%s: %s, of the etcd cluster %s, would be renamed to %s\n",
			p.DataDir, mebibytes(p.Existing.Bytes), orDash(p.Existing.ClusterID), p.Existing.KeptAs)
		fallthrough
	default:
		fmt.Fprintf(&text, "%s would be made, and etcd would go on from revision %s\n", p.DataDir, orUnknown(p.Snapshot.NewRevision))
	}
	text.WriteString("nothing was changed: this was a dry run\n")
	_, err := io.WriteString(out, text.String())
	return err
}

func orUnknown(revision int64) string {
	if revision == 0 {
		return "-"
	}
	return fmt.Sprint(revision)
}

func orUnchecked(hash string) string {
	if hash == "" {
		return "not checked"
	}
	return hash
}
