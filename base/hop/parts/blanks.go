// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package parts

// yamlWidth is where the libraries for YAML end a line at the next blank.
const yamlWidth = 80

// Blanks returns about how many blanks an object has in YAML, or more, if each level is indented by this many. Each value begins a line,
// and so do the lines of texts. At a depth of 250, two bytes of a text become 500.
func Blanks(object []byte, indent int) (blanks int) {
	depth := 0
	for i := 0; i < len(object); i++ {
		switch object[i] {
		case '"':
			length, lines := textIn(object[i+1:], indent*depth)
			blanks += indent * (depth + 1) * lines
			i += length + 1
		case '{', '[':
			depth++
			blanks += indent * depth
		case '}', ']':
			depth--
		case ',':
			blanks += indent * depth
		}
	}
	return blanks
}

// textIn returns the length of a text of JSON that begins behind its quote, and how many lines it may have in YAML where lines begin with
// this many blanks.
func textIn(object []byte, indent int) (length, lines int) {
	gaps := 0
	for length < len(object) && object[length] != '"' {
		switch object[length] {
		case '\\':
			length++
			lines++ // most are line breaks
		case ' ':
			gaps++
		case 0xc2, 0xe2: // U+0085, U+2028 and U+2029 begin with these, and are line breaks, too
			lines++
		}
		length++
	}
	return length, lines + min(gaps, length/max(1, yamlWidth-indent))
}
