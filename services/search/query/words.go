// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package query

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// maxWords is how many words a search may look for, and maxWord how many characters each has.
const maxWords, maxWord = 8, 64

// setWords reads words that blanks separate, or the values of a label.
func setWords(q *Query, g given) error {
	if g.not || g.exists || g.missing {
		return fmt.Errorf("needs words, with = or in")
	}
	for _, value := range g.values {
		for word := range strings.FieldsSeq(value) {
			if utf8.RuneCountInString(word) > maxWord {
				return fmt.Errorf("a word of more than %d characters", maxWord)
			}
			q.Words = append(q.Words, Lowered(Speakable(word)))
		}
	}
	if len(q.Words) > maxWords {
		return fmt.Errorf("more than %d words", maxWords)
	}
	return nil
}

// podSpecs says where the spec of pods is in objects that have one.
var podSpecs = map[schema.GroupKind]string{
	{Kind: "Pod"}: "spec", {Kind: "ReplicationController"}: "spec.template.spec",
	{Group: "apps", Kind: "DaemonSet"}: "spec.template.spec", {Group: "apps", Kind: "Deployment"}: "spec.template.spec",
	{Group: "apps", Kind: "ReplicaSet"}: "spec.template.spec", {Group: "apps", Kind: "StatefulSet"}: "spec.template.spec",
	{Group: "batch", Kind: "Job"}: "spec.template.spec", {Group: "batch", Kind: "CronJob"}: "spec.jobTemplate.spec.template.spec",
}

// Images are the paths of container images by the kinds that have some.
var Images = imagesOf(podSpecs)

func imagesOf(specs map[schema.GroupKind]string) map[schema.GroupKind][][]Step {
	paths := map[schema.GroupKind][][]Step{}
	for kind, spec := range specs {
		for _, containers := range []string{"containers", "initContainers", "ephemeralContainers"} {
			paths[kind] = append(paths[kind], MustPath(spec+"."+containers+"[].image"))
		}
	}
	return paths
}

// Word is the condition that a field has a word of Query.Words.
func Word(path []Step, word string) Condition {
	return Condition{Path: path, Values: []string{word}, Text: Contains, IgnoreCase: true}
}

// hasWords reports whether each word is somewhere in an object.
func (q *Query) hasWords(s *Subject) bool {
	if len(q.Words) == 0 {
		return true
	}
	kind := s.kind()
	texts := []string{s.Cluster, s.Namespace, s.Name, kind.Kind}
	for name, value := range s.meta().Labels {
		texts = append(texts, name, value)
	}
	for i := range texts {
		texts[i] = Lowered(Speakable(texts[i]))
	}
	for _, word := range q.Words {
		found := false
		for _, text := range texts {
			found = found || strings.Contains(text, word)
		}
		for _, path := range Images[kind] {
			for value := range ValuesAt(path, s.JSON) {
				found = found || Word(path, word).holdsFor(value)
			}
		}
		if !found {
			return false
		}
	}
	return true
}
