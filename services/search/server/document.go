// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/base/hop/parts"
)

// document is an object, or a list of items. It is written item by item, because an item that is decoded may take 50 times its bytes.
type document struct {
	// head is the list without its items, an object in JSON, and list is the name of the field of the items.
	head []byte
	list string
	// number counts the items, and item returns one in JSON.
	number int
	item   func(i int) ([]byte, error)
	// single is set if the document is the only item.
	single bool
}

// errItem ends a document in which an item could not be made.
var errItem = errors.New("an item cannot be written")

func (d *document) writeJSON(_ context.Context, w io.Writer) error {
	write := func(texts ...[]byte) error {
		for _, text := range texts {
			if _, err := w.Write(text); err != nil {
				return err
			}
		}
		return nil
	}
	if !d.single {
		if err := write(bytes.TrimSuffix(d.head, []byte("}")), []byte(`,"`+d.list+`":[`)); err != nil {
			return err
		}
	}
	for i := range d.number {
		item, err := d.item(i)
		if err != nil {
			return errors.Join(errItem, err)
		}
		if i > 0 {
			item = append([]byte(","), item...)
		}
		if err := write(item); err != nil {
			return err
		}
	}
	if d.single {
		return nil
	}
	return write([]byte("]}\n"))
}

func (d *document) writeYAML(ctx context.Context, w io.Writer) error {
	if !d.single {
		head, err := toYAML(d.head)
		if err != nil {
			return err
		}
		begin := d.list + ":\n"
		if d.number == 0 {
			begin = d.list + ": []\n"
		}
		if _, err := w.Write(append(head, begin...)); err != nil {
			return err
		}
	}
	for i := range d.number {
		item, err := d.item(i)
		if err == nil {
			item, err = asYAML(ctx, item)
		}
		if err != nil {
			return errors.Join(errItem, err)
		}
		if !d.single {
			item = element(item)
		}
		if _, err := w.Write(item); err != nil {
			return err
		}
	}
	return nil
}

// element returns a document of YAML as an element of a list.
func element(text []byte) []byte {
	lines := bytes.ReplaceAll(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"), []byte("\n  "))
	return append(append([]byte("- "), lines...), '\n')
}

// An object with more than mostValues would take 100 MB and more on its way to YAML, and mostIndent bounds the blanks that YAML may add to
// an object.
const mostValues, mostIndent = 50_000, 4 << 20

// asYAML returns an object as YAML. One of very many parts stays JSON, which is YAML, too.
func asYAML(ctx context.Context, object []byte) ([]byte, error) {
	if valuesOf(object) > mostValues || parts.Blanks(object, 2) > mostIndent {
		text, err := jsontext.AppendFormat(nil, object) // without escapes that YAML does not have
		return append(readableAsYAML(text), '\n'), err
	}
	done, err := decoding(ctx, object)
	if err != nil {
		return nil, err
	}
	defer done()
	return toYAML(object)
}

// toYAML returns a text of JSON in YAML.
func toYAML(text []byte) ([]byte, error) { return yaml.JSONToYAML(readableAsYAML(text)) }

// readableAsYAML escapes characters that YAML reads in another way than JSON, or not at all. The library takes JSON for YAML.
func readableAsYAML(text []byte) []byte {
	escaped := make([]byte, 0, len(text)+len(text)/16)
	for _, c := range string(text) {
		if unicode.IsControl(c) && c > unicode.MaxASCII || slices.Contains([]rune{0x7f, 0x2028, 0x2029, 0xfeff, 0xfffe, 0xffff}, c) {
			escaped = fmt.Appendf(escaped, `\u%04x`, c)
		} else {
			escaped = utf8.AppendRune(escaped, c)
		}
	}
	return escaped
}

// valuesOf returns about how many values an object has, or more.
func valuesOf(object []byte) int {
	return bytes.Count(object, []byte(",")) + bytes.Count(object, []byte("{")) + bytes.Count(object, []byte("["))
}

// largeObject is how many values, and largeText how many bytes an object has that is decoded alone. The largest that a member may send
// takes 60 MB then.
const largeObject, largeText = 10_000, 256 << 10

// largeObjects has room for the one that is being decoded. Of each user, one waits for that, so many of a user do not keep others waiting.
var (
	largeObjects = make(chan struct{}, 1)
	largeOfUser  = newUserLimiter(1)
)

func isLarge(object []byte) bool { return len(object) >= largeText || valuesOf(object) >= largeObject }

// decoding waits until an object may be decoded. Call done when what was decoded is not needed any more.
func decoding(ctx context.Context, object []byte) (done func(), err error) {
	if !isLarge(object) {
		return func() {}, nil
	}
	leave, err := largeOfUser.acquire(ctx, writeTimeout)
	if err != nil {
		return nil, err
	}
	select {
	case largeObjects <- struct{}{}:
		return func() { <-largeObjects; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
