// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package parts counts the parts of JSON of others before it is decoded. Three bytes of JSON may become 300 in memory, so a bound of bytes
// bounds no memory. In other formats the parts do not show, so only objects of JSON pass: decoders of Kubernetes recognize YAML, protobuf
// and CBOR by the text alone, whatever its Content-Type says.
package parts

import (
	"errors"
	"fmt"
)

// Limits bound the parts of a JSON text. Zero is no limit.
type Limits struct {
	// Values are all values, which have a byte at least.
	Values int
	// Elements are the objects, and the elements of lists. Each may become a struct, even if it is something else and decoding fails.
	Elements int
	// Within is the depth down to which values and elements count: 1 is that of the members of the whole.
	Within int
}

// maxDepth bounds nesting. The documents of Kubernetes have less than 60 levels.
const maxDepth = 256

// ErrTooDeep is the error of a text with too many levels.
var ErrTooDeep = errors.New("it is nested deeper than 256 levels")

// ErrNoObject is the error of a text that is no JSON object.
var ErrNoObject = errors.New("it is no JSON object")

// Check returns an error if a text has more parts than the limits allow, or does not begin as a JSON object. It finds no other errors.
func (l Limits) Check(text []byte) error {
	_, err := l.Counter().Write(text)
	return err
}

// Counter returns a Counter for a text that comes in pieces.
func (l Limits) Counter() *Counter { return &Counter{limits: l} }

// Counter counts the parts of the text that is written to it. It implements io.Writer.
type Counter struct {
	limits           Limits
	values, elements int
	// opened is set once the text has begun.
	opened bool
	// lists says of each level whether it is a list.
	lists [maxDepth]bool
	depth int
	// begun is set behind [ or {, after which nothing may follow.
	begun           bool
	quoted, escaped bool
}

// Write implements io.Writer. It fails when the text has too many parts, or is no object.
func (c *Counter) Write(text []byte) (int, error) {
	for i, b := range text {
		if c.quoted {
			c.quoted, c.escaped = c.escaped || b != '"', !c.escaped && b == '\\'
			continue
		}
		if err := c.add(b); err != nil {
			return i, err
		}
	}
	return len(text), nil
}

// add counts what a byte outside of strings begins.
func (c *Counter) add(b byte) error {
	switch b {
	case ' ', '\t', '\r', '\n':
		return nil
	}
	if !c.opened && b != '{' {
		return ErrNoObject
	}
	c.opened = true
	switch b {
	case ',':
		if err := c.value(); err != nil {
			return err
		}
	case ']', '}':
		c.depth, c.begun = max(c.depth-1, 0), false
		return nil
	default:
		if c.begun {
			if err := c.value(); err != nil {
				return err
			}
		}
	}
	c.begun, c.quoted = b == '[' || b == '{', b == '"'
	if !c.begun {
		return nil
	}
	if b == '{' && !c.inList() && c.counts() { // an element of a list counts already
		c.elements++
	}
	if c.depth == maxDepth {
		return ErrTooDeep
	}
	c.lists[c.depth] = b == '['
	c.depth++
	return c.check()
}

func (c *Counter) inList() bool { return c.depth > 0 && c.lists[c.depth-1] }

func (c *Counter) counts() bool { return c.limits.Within == 0 || c.depth <= c.limits.Within }

// value counts a member of an object, or an element of a list.
func (c *Counter) value() error {
	if !c.counts() {
		return nil
	}
	if c.values++; c.inList() {
		c.elements++
	}
	return c.check()
}

func (c *Counter) check() error {
	if l := c.limits; l.Values > 0 && c.values > l.Values || l.Elements > 0 && c.elements > l.Elements {
		return fmt.Errorf("it has more than %d values, or %d objects and elements of lists", l.Values, l.Elements)
	}
	return nil
}
