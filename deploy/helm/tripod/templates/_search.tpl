{{- /*
Copyright The Tripod Authors.
SPDX-License-Identifier: Apache-2.0
*/ -}}

{{- /* Where search keeps objects: yours (the database in a Secret), postgres (that of the release) or sqlite. */ -}}
{{- define "tripod.search.database" -}}
{{- with .Values.search.database -}}
{{- if and .secret .postgres.enabled -}}{{- fail "search.database.secret and search.database.postgres.enabled cannot both be given" -}}{{- end -}}
{{- ternary "yours" (ternary "postgres" "sqlite" .postgres.enabled) (not (empty .secret)) -}}
{{- end -}}
{{- end -}}

{{- /* Whether the release runs PostgreSQL: true or nothing. */ -}}
{{- define "tripod.search.postgres" -}}
{{- if and .Values.search.enabled (eq (include "tripod.search.database" .) "postgres") -}}true{{- end -}}
{{- end -}}

{{- /* The names of the Deployments of search by role, as JSON. SQLite has one writer, so there one replica answers and copies. */ -}}
{{- define "tripod.search.components" -}}
{{- ternary (dict "serve" "search") (dict "serve" "search" "sync" "search-sync") (eq (include "tripod.search.database" .) "sqlite") | toJson -}}
{{- end -}}

{{- /* The arguments of replicas that copy clusters, as JSON. Helm reads integers as floating-point numbers. */ -}}
{{- define "tripod.search.copying" -}}
{{- $args := list -}}
{{- with .Values.search -}}
{{- with .members.allow -}}{{- $args = append $args (printf "--member-allow=%s" (join "," .)) -}}{{- end -}}
{{- $limits := dict -}}
{{- range $name, $value := .members.limits -}}{{- $_ := set $limits (printf "member-%s" $name) $value -}}{{- end -}}
{{- with .templates.memory -}}{{- $_ := set $limits "template-memory" . -}}{{- end -}}
{{- with .templates.time -}}{{- $_ := set $limits "template-time" . -}}{{- end -}}
{{- range $name, $value := $limits -}}
{{- $args = append $args (printf "--%s=%s" $name (ternary (int64 $value | toString) (toString $value) (kindIs "float64" $value))) -}}
{{- end -}}
{{- end -}}
{{- toJson $args -}}
{{- end -}}

{{- /* The values of one of them, as those of an additional API service, as JSON: dict root, role. */ -}}
{{- define "tripod.search.values" -}}
{{- $search := .root.Values.search -}}
{{- $values := deepCopy (get $search .role) -}}
{{- $volume := dict "name" "database" -}}
{{- $mount := dict "name" "database" -}}
{{- $args := list -}}
{{- $database := include "tripod.search.database" .root -}}
{{- if ne $database "sqlite" -}}
{{- $args = list (printf "--roles=%s" .role) -}}
{{- $secret := $search.database.secret -}}
{{- if eq $database "yours" -}}
{{- $args = append $args "--database-file=/etc/tripod/database/url" -}}
{{- else -}}
{{- $secret = printf "%s-search-database-client" (include "tripod.fullname" .root) -}}
{{- $args = append $args (printf "--database=postgres://search@%s-search-database.%s.svc/search?sslmode=verify-full&sslrootcert=%s/ca.crt&sslcert=%[3]s/tls.crt&sslkey=%[3]s/tls.key"
  (include "tripod.fullname" .root) .root.Release.Namespace "/etc/tripod/database") -}}
{{- end -}}
{{- if or (not (hasKey $values "replicas")) (eq (toString $values.replicas) "preset") -}}
{{- $_ := set $values "replicas" (include "tripod.setting" (dict "root" .root "path" (printf "search.%s.replicas" .role)) | int) -}}
{{- end -}}
{{- $_ := set $volume "secret" (dict "secretName" $secret "defaultMode" 0440) -}}
{{- $_ := merge $mount (dict "mountPath" "/etc/tripod/database" "readOnly" true) -}}
{{- else -}}
{{- if or (gt (int (default 1 $values.replicas)) 1) (dig "autoscaling" "enabled" false $values) (not (empty $search.sync)) -}}
{{- fail "search.database.secret or search.database.postgres.enabled is needed for several replicas of search and for search.sync: without a database, one replica keeps the objects in a volume with SQLite" -}}
{{- end -}}
{{- $args = list "--database=sqlite:/var/lib/tripod-search/search.db" -}}
{{- $_ := set $values "strategy" "Recreate" -}}
{{- $_ := set $volume "persistentVolumeClaim" (dict "claimName" (printf "%s-search" (include "tripod.fullname" .root))) -}}
{{- $_ := set $mount "mountPath" "/var/lib/tripod-search" -}}
{{- end -}}
{{- /* What a replica of these roles may take at most (docs/search-reference.md, Memory). */ -}}
{{- $memory := ternary "1344Mi" (ternary "512Mi" "1088Mi" (eq .role "serve")) (eq $database "sqlite") -}}
{{- $_ := set $values "resources" (merge (default dict $values.resources) (dict "limits" (dict "memory" $memory))) -}}
{{- $args = append $args (printf "--hub-cluster=%s" $search.hubCluster) -}}
{{- $args = append $args (printf "--secret-namespace=%s" $search.secretNamespace) -}}
{{- if or (eq .role "sync") (eq $database "sqlite") -}}{{- $args = concat $args (include "tripod.search.copying" .root | fromJsonArray) -}}{{- end -}}
{{- $_ := merge $values (dict
  "image" (include "tripod.optional.image" (dict "root" .root "component" "search") | fromJson)
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
