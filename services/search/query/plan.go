// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package query

import (
	"bytes"
	"errors"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// plan judges all fields of a query for an object of a kind in one pass over its text, and takes no memory for what it passes.
type plan struct {
	fields []plannedField
	root   *place
	judged []*judgment
}

// plannedField is a field with what its alternatives depend on.
type plannedField struct {
	negative     bool
	alternatives [][]*judgment
}

// judgment is what an object says about a condition.
type judgment struct {
	Condition
	every bool
	// some is set if the path leads to a value, and held if one of these is as the condition says.
	some, held bool
}

// place is where the paths of conditions lead.
type place struct {
	// ending are the conditions whose path ends here.
	ending []*judgment
	// next are the next steps. Watches keep them, and few are at one place, so they are no map.
	next []nextPlace
}

type nextPlace struct {
	Step
	*place
}

func newPlan(fields []Field, kind schema.GroupKind) *plan {
	p := &plan{root: &place{}}
	for _, f := range fields {
		planned := plannedField{negative: f.Negative()}
		for _, all := range f.Alternatives(kind) {
			var judged []*judgment
			for _, c := range all {
				j := &judgment{Condition: c, every: c.Every()}
				j.Values = make([]string, len(c.Values))
				for i, value := range c.Values {
					j.Values[i] = Speakable(value)
				}
				at := p.root.of(c.Path)
				at.ending = append(at.ending, j)
				judged = append(judged, j)
			}
			planned.alternatives = append(planned.alternatives, judged)
			p.judged = append(p.judged, judged...)
		}
		p.fields = append(p.fields, planned)
	}
	return p
}

// of returns the place to which a path leads.
func (p *place) of(path []Step) *place {
	for _, step := range path {
		next := p.after(step)
		if next == nil {
			next = &place{}
			p.next = append(p.next, nextPlace{step, next})
		}
		p = next
	}
	return p
}

func (p *place) after(step Step) *place {
	for _, n := range p.next {
		if n.Step == step {
			return n.place
		}
	}
	return nil
}

// field returns the place of a field by its name in JSON.
func (p *place) field(name jsontext.Value) *place {
	if bytes.IndexByte(name, '\\') >= 0 || !utf8.Valid(name) {
		unquoted, _ := jsontext.AppendUnquote(nil, name) // invalid UTF-8 becomes U+FFFD
		return p.after(Step{Name: string(unquoted)})
	}
	name = name[1 : len(name)-1]
	for _, n := range p.next {
		if n.Name == string(name) && len(name) > 0 {
			return n.place
		}
	}
	return nil
}

// holds judges an object as fields.Selector does, for which a field that is not there is "".
func (p *plan) holds(object jsontext.Value) bool {
	for _, j := range p.judged {
		j.some, j.held = false, false
	}
	p.root.read(decoderOf(object), false) //nolint:errcheck // the database has valid JSON only
	for _, j := range p.judged {
		j.held = j.held || !j.some && !j.every && j.holdsFor(null)
	}
	return !slices.ContainsFunc(p.fields, func(f plannedField) bool {
		one := slices.ContainsFunc(f.alternatives, func(all []*judgment) bool {
			return !slices.ContainsFunc(all, func(j *judgment) bool { return !j.held })
		})
		return one == f.negative
	})
}

func decoderOf(text jsontext.Value) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(text), asStored)
}

// read reads the value at the place. whole is set if something that follows it is needed, too.
func (p *place) read(d *jsontext.Decoder, whole bool) error {
	if len(p.ending) == 0 {
		return p.follow(d, whole)
	}
	value, err := d.ReadValue()
	if err != nil {
		return err
	}
	for _, j := range p.ending {
		j.some = true
		j.held = j.held || j.holdsFor(value)
	}
	if len(p.next) == 0 {
		return nil
	}
	return p.follow(decoderOf(value), false)
}

// follow reads an object or a list whose parts count.
func (p *place) follow(d *jsontext.Decoder, whole bool) error {
	left := 0 // steps that were not found yet
	list := d.PeekKind() == jsontext.KindBeginArray
	for _, n := range p.next {
		if n.List() == list {
			left++
		}
	}
	switch {
	case left == 0:
		return d.SkipValue()
	case list:
		return p.readList(d, left, whole)
	case d.PeekKind() == jsontext.KindBeginObject:
		return p.readObject(d, left, whole)
	}
	return d.SkipValue()
}

func (p *place) readObject(d *jsontext.Decoder, left int, whole bool) error {
	_, err := d.ReadToken()
	var seen []*place
	for err == nil && d.PeekKind() != jsontext.KindEndObject {
		var name jsontext.Value
		if name, err = d.ReadValue(); err != nil {
			break
		}
		next := p.field(name)
		if next == nil || slices.Contains(seen, next) { // of a name that is there twice, the first counts
			err = d.SkipValue()
			continue
		}
		if left--; left == 0 && !whole {
			return next.read(d, false)
		}
		seen = append(seen, next)
		err = next.read(d, true)
	}
	if err != nil {
		return err
	}
	_, err = d.ReadToken()
	return err
}

func (p *place) readList(d *jsontext.Decoder, left int, whole bool) error {
	_, err := d.ReadToken()
	every := p.after(Step{Index: -1})
	for i := 0; err == nil && d.PeekKind() != jsontext.KindEndArray; i++ {
		one := p.after(Step{Index: i})
		if one != nil {
			left--
		}
		switch {
		case one == nil && every == nil:
			err = d.SkipValue()
		case one == nil:
			err = every.read(d, true)
		case every == nil && left == 0 && !whole:
			return one.read(d, false)
		case every == nil:
			err = one.read(d, true)
		default:
			var value jsontext.Value
			if value, err = d.ReadValue(); err == nil {
				err = errors.Join(one.read(decoderOf(value), false), every.read(decoderOf(value), false))
			}
		}
	}
	if err != nil {
		return err
	}
	_, err = d.ReadToken()
	return err
}
