// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package templates

import (
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
)

// functionNames are the functions of sprig that templates may call. Their results depend on their arguments alone: no environment, no
// network, no clock, no randomness, no keys. So two replicas, and two passes, make the same of the same objects.
const functionNames = `
abbrev abbrevboth cat contains hasPrefix hasSuffix indent initials kebabcase camelcase snakecase swapcase lower upper title untitle
nindent nospace plural quote squote replace substr trim trimAll trimall trimPrefix trimSuffix trunc wrap wrapWith
toString join sortAlpha split splitList splitn toStrings

add add1 add1f addf biggest ceil div divf floor max maxf min minf mod mul mulf round sub subf atoi float64 int int64 toDecimal

all any coalesce compact mustCompact default empty ternary fail
fromJson mustFromJson toJson mustToJson toPrettyJson mustToPrettyJson toRawJson mustToRawJson
deepCopy mustDeepCopy deepEqual kindIs kindOf typeIs typeIsLike typeOf

append mustAppend push mustPush prepend mustPrepend chunk mustChunk concat first mustFirst rest mustRest last mustLast
initial mustInitial has mustHas list tuple reverse mustReverse slice mustSlice uniq mustUniq without mustWithout
dict dig get hasKey keys merge mergeOverwrite mustMerge mustMergeOverwrite omit pick pluck set unset values

adler32sum sha1sum sha256sum sha512sum b32dec b32enc b64dec b64enc urlJoin urlParse semver semverCompare
base clean dir ext isAbs osBase osClean osDir osExt osIsAbs
regexFind mustRegexFind regexFindAll mustRegexFindAll regexMatch mustRegexMatch regexQuoteMeta regexReplaceAll mustRegexReplaceAll
regexReplaceAllLiteral mustRegexReplaceAllLiteral regexSplit mustRegexSplit
`

// functions are those of functionNames.
var functions = func() template.FuncMap {
	all, chosen := sprig.TxtFuncMap(), template.FuncMap{}
	for _, name := range strings.Fields(functionNames) {
		chosen[name] = all[name]
	}
	return chosen
}()
