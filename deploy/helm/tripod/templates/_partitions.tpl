{{- /*
Copyright The Tripod Authors.
SPDX-License-Identifier: Apache-2.0
*/ -}}

{{- /* The values of the partitions of extensions by component, as JSON. A partition has the values of extensions that it does not set itself. */ -}}
{{- define "tripod.partitions" -}}
{{- $all := dict -}}
{{- $extensions := omit .Values.extensions "partitions" -}}
{{- range $name, $given := .Values.extensions.partitions -}}
{{- $values := deepCopy $given -}}
{{- include "tripod.values.fill" (dict "values" $values "defaults" (deepCopy $extensions)) -}}
{{- $_ := set $all (printf "extensions-%s" $name) $values -}}
{{- end -}}
{{- toJson $all -}}
{{- end -}}

{{- /* Whether a component is a partition, true or nothing: dict root, component. */ -}}
{{- define "tripod.isPartition" -}}
{{- if hasKey (include "tripod.partitions" .root | fromJson) .component -}}true{{- end -}}
{{- end -}}

{{- /* The service of Tripod that a component is: a partition runs extensions. dict root, component. */ -}}
{{- define "tripod.program" -}}
{{- ternary "extensions" .component (eq (include "tripod.isPartition" .) "true") -}}
{{- end -}}

{{- /* The table of partitions, as a JSON list of NAME=GROUP,... All replicas of extensions have the same one. */ -}}
{{- define "tripod.partitions.table" -}}
{{- $table := list -}}
{{- range $name, $values := .Values.extensions.partitions -}}
{{- $table = append $table (printf "%s=%s" $name (join "," $values.groups)) -}}
{{- end -}}
{{- toJson $table -}}
{{- end -}}

{{- /* The etcd that the custom resources of a partition have for themselves, as JSON {servers, secret, name}: dict root, component. The name is that of an
etcd of the release, after the fullname. */ -}}
{{- define "tripod.partitions.etcd" -}}
{{- $own := dict -}}
{{- if include "tripod.isPartition" . -}}{{- $own = (include "tripod.values" . | fromJson).etcd | default dict -}}{{- end -}}
{{- if $own.enabled -}}
{{- $name := printf "etcd-%s" .component -}}
{{- $servers := include "tripod.etcd.members" (dict "root" .root "name" $name) | splitList "," -}}
{{- dict "servers" $servers "name" $name "secret" (printf "%s-%s-client-%s" (include "tripod.fullname" .root) $name .component) | toJson -}}
{{- else -}}
{{- ternary (pick $own "servers" "secret") dict (not (empty $own.servers)) | toJson -}}
{{- end -}}
{{- end -}}

{{- /* The names of the etcds of partitions that the release runs, as a JSON list. */ -}}
{{- define "tripod.partitions.etcds" -}}
{{- $names := list -}}
{{- range $component := include "tripod.partitions" . | fromJson | keys | sortAlpha -}}
{{- with (include "tripod.partitions.etcd" (dict "root" $ "component" $component) | fromJson).name -}}{{- $names = append $names . -}}{{- end -}}
{{- end -}}
{{- toJson $names -}}
{{- end -}}

{{- /* The partition whose etcd this is, or nothing: dict root, name. */ -}}
{{- define "tripod.partitions.ofEtcd" -}}
{{- if has .name (include "tripod.partitions.etcds" .root | fromJsonArray) -}}{{- trimPrefix "etcd-" .name -}}{{- end -}}
{{- end -}}

{{- /* The flags of a partition for the etcd of its custom resources. Definitions are in the etcd of extensions. dict root, component, values. */ -}}
{{- define "tripod.partitions.arguments" }}
- --partition={{ trimPrefix "extensions-" .component }}
{{- with $own := include "tripod.partitions.etcd" . | fromJson }}
{{- range $group := $.values.groups }}
- --group-etcd-servers={{ $group }}={{ join "," $own.servers }}
{{- end }}
{{- /* The files for the etcd of extensions are for that alone. */}}
- --group-etcd-cafile={{ if .secret }}/etc/tripod/pki/group-etcd-ca.crt{{ end }}
- --group-etcd-certfile={{ if .secret }}/etc/tripod/pki/group-etcd-client/tls.crt{{ end }}
- --group-etcd-keyfile={{ if .secret }}/etc/tripod/pki/group-etcd-client/tls.key{{ end }}
{{- if .name }}
{{- /* Only the user root of etcd may compact, and know the size of the database. */}}
- --group-etcd-compaction-interval=0
{{- if not $.root.Values.etcd.enabled }}
- --etcd-db-metric-poll-interval=0
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* Whether a pattern of API groups matches a group, true or nothing: dict pattern, group. *.SUFFIX stands for all groups below SUFFIX. */ -}}
{{- define "tripod.partitions.matches" -}}
{{- if hasPrefix "*." .pattern -}}
{{- if hasSuffix (trimPrefix "*" .pattern) .group -}}true{{- end -}}
{{- else if eq .pattern .group -}}
true
{{- end -}}
{{- end -}}

{{- /* Whether two patterns have groups in common, true or nothing: dict a, b. */ -}}
{{- define "tripod.partitions.overlap" -}}
{{- if or (eq .a .b)
  (and (hasPrefix "*." .a) (include "tripod.partitions.matches" (dict "pattern" .a "group" (trimPrefix "*." .b))))
  (and (hasPrefix "*." .b) (include "tripod.partitions.matches" (dict "pattern" .b "group" (trimPrefix "*." .a)))) -}}
true
{{- end -}}
{{- end -}}

{{- /* Fails with what is wrong with the partitions, as the services would when they start. */ -}}
{{- define "tripod.partitions.check" -}}
{{- $builtIn := .Files.Get "groups.json" | fromJsonArray -}}
{{- $services := include "tripod.services" . | fromJson -}}
{{- $seen := list -}}
{{- range $name, $values := .Values.extensions.partitions -}}
{{- $where := printf "extensions.partitions.%s" $name -}}
{{- $object := printf "%s-extensions-%s" (include "tripod.fullname" $) $name -}}
{{- if gt (len $object) 63 -}}{{- fail (printf "%s: the name is too long: a Service cannot be named %s" $where $object) -}}{{- end -}}
{{- $etcd := default dict $values.etcd -}}
{{- if and $etcd.enabled (or $etcd.servers $etcd.secret) -}}{{- fail (printf "%s.etcd: give enabled for an etcd of the release, or servers and secret for one of yours" $where) -}}{{- end -}}
{{- if and $etcd.secret (not $etcd.servers) -}}{{- fail (printf "%s.etcd: servers is missing: secret is for these" $where) -}}{{- end -}}
{{- if not $etcd.enabled -}}
{{- range $key := omit $etcd "enabled" "servers" "secret" | keys | sortAlpha -}}
{{- fail (printf "%s.etcd.%s is for an etcd of the release: set enabled" $where $key) -}}
{{- end -}}
{{- end -}}
{{- with (include "tripod.partitions.etcd" (dict "root" $ "component" (printf "extensions-%s" $name)) | fromJson).name -}}
{{- $etcd := printf "%s-%s" (include "tripod.fullname" $) . -}}
{{- if gt (len $etcd) 43 -}}{{- fail (printf "%s: the name is too long for an etcd of its own: a CronJob cannot be named %s-snapshot" $where $etcd) -}}{{- end -}}
{{- end -}}
{{- range $group := $values.groups -}}
{{- if has $group (list "*" "*.") -}}{{- fail (printf "%s: %q matches every API group: give groups, or *.SUFFIX" $where $group) -}}{{- end -}}
{{- range $other := $builtIn -}}
{{- if include "tripod.partitions.matches" (dict "pattern" $group "group" $other) -}}
{{- fail (printf "%s: %s has the group %s, which is built in" $where $group $other) -}}
{{- end -}}
{{- end -}}
{{- range $earlier := $seen -}}
{{- if and (ne $earlier.partition $name) (include "tripod.partitions.overlap" (dict "a" $earlier.group "b" $group)) -}}
{{- fail (printf "%s: %s and %s of partition %s have groups in common" $where $group $earlier.group $earlier.partition) -}}
{{- end -}}
{{- end -}}
{{- range $service, $of := $services -}}
{{- range $other := $of.groups -}}
{{- if include "tripod.partitions.matches" (dict "pattern" $group "group" $other) -}}
{{- fail (printf "%s: %s has the group %s, which the service %s has" $where $group $other $service) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $seen = append $seen (dict "partition" $name "group" $group) -}}
{{- end -}}
{{- end -}}
{{- end -}}
