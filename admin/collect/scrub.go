// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// redacted stands for a secret.
const redacted = "REDACTED"

// minSecret is the shortest secret that the scrubber looks for, in bytes. Shorter ones are parts of other words.
const minSecret = 6

// minPart is the shortest part of a text with several lines that may be a secret, in bytes.
const minPart = 16

// forms are secrets that show by their form. Groups before and after the secret stay.
var forms = []*regexp.Regexp{
	regexp.MustCompile(`()-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\z)`),
	regexp.MustCompile(`()LS0tLS1CRUdJTi[A-Za-z0-9+/=]{20,}`),                              // "-----BEGIN" in base64
	regexp.MustCompile(`()\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+)?`), // a JWT
	regexp.MustCompile(`(?i)(\bbearer\s+|authorization["']?\s*[:=]\s*["']?basic\s+)[A-Za-z0-9._~+/=-]{8,}`),
	regexp.MustCompile(`()\b[a-z0-9]{6}\.[a-z0-9]{16}\b`), // a bootstrap token
	regexp.MustCompile(`(://)[^/\s:@"']+:[^/\s@"']+(@)`),  // in a URL
	regexp.MustCompile(`(?i)((?:password|passwd|secret|token|api-?key|key-data)["']?\s*[:=]\s*["']?)[^\s"',;&{}]{6,}`),
}

// Scrubber replaces secrets in texts.
type Scrubber struct {
	// Redacted counts the replacements.
	Redacted int
	known    map[string]bool
	// replacer replaces those that are known, or is nil if more have come.
	replacer *strings.Replacer
}

// Know adds a secret to look for, also in base64. Of a text with several lines, such as a kubeconfig, it takes the parts that look random,
// and of a key all lines.
func (s *Scrubber) Know(secret []byte) {
	if s.known == nil {
		s.known = map[string]bool{}
	}
	text := strings.TrimSpace(string(secret))
	if len(text) < minSecret {
		return
	}
	s.replacer = nil
	s.known[base64.StdEncoding.EncodeToString(secret)] = true
	s.known[base64.StdEncoding.EncodeToString([]byte(text))] = true
	if !strings.ContainsAny(text, "\n") {
		s.known[text] = true
		return
	}
	isKey := strings.Contains(text, "PRIVATE KEY-----")
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\r\n\"',:;{}[]", r) }) {
		if looksRandom(part) || isKey && len(part) >= minPart && !strings.Contains(part, "-----") {
			s.known[part] = true
		}
	}
}

// looksRandom reports whether a word is rather a key than a host, a path or a version.
func looksRandom(word string) bool {
	return len(word) >= minPart && !strings.HasPrefix(word, "/") && !strings.ContainsAny(word, ".:") && !strings.Contains(word, "--") &&
		strings.ContainsAny(word, "0123456789") && strings.ContainsAny(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
}

// Scrub returns a text without secrets.
func (s *Scrubber) Scrub(text []byte) []byte {
	before := bytes.Count(text, []byte(redacted))
	text = []byte(s.replaceKnown(string(text)))
	for _, form := range forms {
		text = form.ReplaceAll(text, []byte("${1}"+redacted+"${2}"))
	}
	s.Redacted += max(0, bytes.Count(text, []byte(redacted))-before)
	return text
}

func (s *Scrubber) replaceKnown(text string) string {
	if s.replacer == nil {
		secrets := slices.Collect(maps.Keys(s.known))
		// The longest first: one may begin with another.
		slices.SortFunc(secrets, func(a, b string) int { return cmp.Or(len(b)-len(a), cmp.Compare(a, b)) })
		pairs := make([]string, 0, 2*len(secrets))
		for _, secret := range secrets {
			pairs = append(pairs, secret, redacted)
		}
		s.replacer = strings.NewReplacer(pairs...)
	}
	return s.replacer.Replace(text)
}

// suspect are names of values that may be secrets.
var suspect = regexp.MustCompile(`(?i)pass|secret$|secrets$|token|credential|private|dsn|apikey|api-key|(^|[a-z_-])key(s|data)?$|^key`)

// RedactValues replaces the texts in a configuration that may be secrets: by the names of their keys, and everything that has several lines
// or looks random. Values of environment variables are secrets. Numbers and booleans stay.
func RedactValues(value any) any { return redactValue("", value) }

func redactValue(name string, value any) any {
	switch value := value.(type) {
	case map[string]any:
		all := map[string]any{}
		_, isVariable := value["name"]
		for key, below := range value {
			if key == "value" && isVariable {
				key, below = "value", redacted
			}
			all[key] = redactValue(key, below)
		}
		return all
	case []any:
		all := make([]any, len(value))
		for i, below := range value {
			all[i] = redactValue(name, below)
		}
		return all
	case string:
		switch {
		case value == "":
			return value
		case strings.HasPrefix(value, "--"):
			return RedactFlag(value)
		case suspect.MatchString(name), strings.Contains(value, "\n"), looksRandom(value) && !strings.Contains(value, "sha256:"):
			return redacted
		}
	}
	return value
}

// RedactFlag replaces the value of a flag that may be a secret.
func RedactFlag(flag string) string {
	name, value, ok := strings.Cut(flag, "=")
	isFile := strings.HasPrefix(value, "/") || strings.HasPrefix(value, "http://") || strings.HasPrefix(value, "https://")
	if ok && suspect.MatchString(strings.TrimLeft(name, "-")) && !isFile && value != "true" && value != "false" {
		return name + "=" + redacted
	}
	return flag
}
