// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// keptRows is how many rows of large objects are kept, and rowTime for how long: a row says how old its object is.
	keptRows = 8
	rowTime  = time.Minute
)

// largeRows are those of all watches. A change of a large object is decoded once, and not for each watch that shows it as a table.
var largeRows = &rows{}

// rows keeps the last rows of large objects.
type rows struct {
	mu   sync.Mutex
	kept []keptRow
	// made counts the rows that were not among them.
	made int
}

type keptRow struct {
	key  [sha256.Size]byte
	row  metav1.TableRow
	made time.Time
}

// rowKey returns what the row of an object depends on.
func (e *eventWriter) rowKey(cluster string, object []byte) (key [sha256.Size]byte) {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q %q %q ", e.kind.GroupVersionKind(), e.kind.Columns, e.req.URL.Query().Get("includeObject"), cluster)
	sum.Write(object)
	return [sha256.Size]byte(sum.Sum(nil))
}

// of returns the row of an object. It makes that if it does not have it, one of a large object at a time.
func (r *rows) of(ctx context.Context, e *eventWriter, cluster string, object []byte) (metav1.TableRow, error) {
	if !isLarge(object) {
		return e.table.Row(ctx, cluster, object)
	}
	key := e.rowKey(cluster, object)
	if row, has := r.get(key); has {
		return row, nil
	}
	done, err := decoding(ctx, object)
	if err != nil {
		return metav1.TableRow{}, err
	}
	defer done()
	if row, has := r.get(key); has { // another watch has made it meanwhile
		return row, nil
	}
	row, err := e.table.Row(ctx, cluster, object)
	if err == nil {
		r.put(key, row)
	}
	return row, err
}

func (r *rows) get(key [sha256.Size]byte) (metav1.TableRow, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = slices.DeleteFunc(r.kept, func(k keptRow) bool { return time.Since(k.made) > rowTime })
	i := slices.IndexFunc(r.kept, func(k keptRow) bool { return k.key == key })
	if i < 0 {
		return metav1.TableRow{}, false
	}
	return r.kept[i].row, true
}

func (r *rows) put(key [sha256.Size]byte, row metav1.TableRow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.kept) == keptRows {
		r.kept = slices.Delete(r.kept, 0, 1)
	}
	r.kept, r.made = append(r.kept, keptRow{key, row, time.Now()}), r.made+1
}
