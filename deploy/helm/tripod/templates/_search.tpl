{{- /*
Copyright The Tripod Authors.
SPDX-License-Identifier: Apache-2.0
*/ -}}

{{- /* The names of the Deployments of search by role, as JSON. SQLite has one writer, so there one replica answers and copies. */ -}}
{{- define "tripod.search.components" -}}
{{- ternary (dict "serve" "search" "sync" "search-sync") (dict "serve" "search") (not (empty .Values.search.database.secret)) | toJson -}}
{{- end -}}

{{- /* The values of one of them, as those of a further API service, as JSON: dict root, role. */ -}}
{{- define "tripod.search.values" -}}
{{- $search := .root.Values.search -}}
{{- $values := deepCopy (get $search .role) -}}
{{- $volume := dict "name" "database" -}}
{{- $mount := dict "name" "database" -}}
{{- $args := list -}}
{{- if $search.database.secret -}}
{{- $args = list (printf "--roles=%s" .role) "--database-file=/etc/tripod/database/url" -}}
{{- $_ := set $volume "secret" (dict "secretName" $search.database.secret "defaultMode" 0440) -}}
{{- $_ := merge $mount (dict "mountPath" "/etc/tripod/database" "readOnly" true) -}}
{{- else -}}
{{- if or (gt (int (default 1 $values.replicas)) 1) (dig "autoscaling" "enabled" false $values) (not (empty $search.sync)) -}}
{{- fail "search.database.secret is needed for several replicas of search and for search.sync: without it, one replica keeps the objects in a volume with SQLite" -}}
{{- end -}}
{{- $args = list "--database=sqlite:/var/lib/tripod-search/search.db" -}}
{{- $_ := set $values "strategy" "Recreate" -}}
{{- $_ := set $volume "persistentVolumeClaim" (dict "claimName" (printf "%s-search" (include "tripod.fullname" .root))) -}}
{{- $_ := set $mount "mountPath" "/var/lib/tripod-search" -}}
{{- end -}}
{{- $args = append $args (printf "--hub-cluster=%s" $search.hubCluster) -}}
{{- with $search.secretNamespace -}}{{- $args = append $args (printf "--secret-namespace=%s" .) -}}{{- end -}}
{{- $image := include "tripod.image" (dict "root" .root "name" "tripod-search") -}}
{{- $tag := include "tripod.tag" .root -}}
{{- $_ := merge $values (dict
  "image" (dict "repository" (trimSuffix (printf ":%s" $tag) $image) "tag" $tag "pullPolicy" .root.Values.image.pullPolicy)
  "etcd" (dict "enabled" false)
  "groups" (list "clusterpedia.io")) -}}
{{- $_ := set $values "args" (concat $args (default list $values.extraArgs)) -}}
{{- $_ := set $values "volumes" (append (default list $values.volumes) $volume) -}}
{{- $_ := set $values "volumeMounts" (append (default list $values.volumeMounts) $mount) -}}
{{- toJson $values -}}
{{- end -}}

{{- /* The service whose certificate a component has: dict root, component. */ -}}
{{- define "tripod.identity" -}}
{{- ternary "search" .component (and (eq .component "search-sync") .root.Values.search.enabled) -}}
{{- end -}}
