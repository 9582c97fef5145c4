{{- /*
Copyright The Tripod Authors.
SPDX-License-Identifier: Apache-2.0
*/ -}}

{{- define "tripod.etcd.selector" -}}
{{ include "tripod.selector" . }}
tripod-k8s.io/etcd: {{ .name }}
{{- end -}}

{{- /* The number of members that the selector of a StatefulSet names. */ -}}
{{- define "tripod.etcd.declared" -}}
{{- range dig "spec" "selector" "matchExpressions" list . -}}
{{- if eq .key "tripod-k8s.io/etcd-members" -}}{{- first .values -}}{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Where members find the initial members, and restores all members. Pods do not change with their number. The second ConfigMap is there after `tripod
etcd resize`, and comes before the first: new members join those that are there. A member with data ignores both: the name of the StatefulSet. */ -}}
{{- define "tripod.etcd.envFrom" -}}
- configMapRef: {name: {{ . }}-members}
- configMapRef: {name: {{ . }}-resized, optional: true}
{{- end -}}

{{- /* The initial members of an etcd, in the form of its flag: dict root, name. */ -}}
{{- define "tripod.etcd.initial" -}}
{{- $set := printf "%s-%s" (include "tripod.fullname" .root) .name -}}
{{- $members := list -}}
{{- range $i := until (include "tripod.setting" (dict "root" .root "path" "etcd.replicas") | int) -}}
{{- $members = append $members (printf "%s-%d=https://%s-%d.%s.%s.svc:2380" $set $i $set $i $set $.root.Release.Namespace) -}}
{{- end -}}
{{- join "," $members -}}
{{- end -}}

{{- /*
The number of members is in the selector, which cannot change: with a larger number, further members would form an etcd of their own,
without the data of the others, and with a smaller one, etcd would lose its majority. `tripod etcd resize` makes the StatefulSet anew, beside
the pods. If Helm can ask the cluster, it refuses what would lose data.
*/ -}}
{{- define "tripod.etcd.check" -}}
{{- $etcd := include "tripod.etcd.values" . | fromJson -}}
{{- $set := printf "%s-%s" (include "tripod.fullname" .root) .name -}}
{{- $there := lookup "apps/v1" "StatefulSet" .root.Release.Namespace $set -}}
{{- $resized := lookup "v1" "ConfigMap" .root.Release.Namespace (printf "%s-resized" $set) -}}
{{- with dig "metadata" "annotations" "tripod-k8s.io/resize-to" "" $resized -}}
{{- fail (printf "tripod etcd resize has not finished with %s: run `tripod etcd resize %s --namespace %s --members %s` again first" $set $.root.Release.Name $.root.Release.Namespace .) -}}
{{- end -}}
{{- if not $there -}}
{{- include "tripod.etcd.checkVolumes" (dict "root" .root "set" $set "etcd" $etcd "resized" $resized "snapshot" .snapshot) -}}
{{- end -}}
{{- if $there -}}
{{- $members := include "tripod.etcd.declared" $there | int -}}
{{- if ne $members (int $etcd.replicas) -}}
{{- fail (printf "etcd.replicas is %d, and %s has %d: first run `tripod etcd resize %s --namespace %s --members %[1]d`, or set etcd.replicas to %[3]d (docs/operate.md)" (int $etcd.replicas) $set $members .root.Release.Name .root.Release.Namespace) -}}
{{- end -}}
{{- include "tripod.etcd.checkVersion" (dict "set" $set "from" (index $there.spec.template.spec.containers 0).image "to" (include "tripod.reference" $etcd.image) "downgradedTo" $etcd.downgradedTo) -}}
{{- if index ($there.metadata.annotations | default dict) "tripod-k8s.io/restore" -}}
{{- fail (printf "tripod etcd restore-release has not finished the restore of %s: run it again first, or give the restore up (docs/backup.md)" $set) -}}
{{- end -}}
{{- $restored := index ($there.spec.template.metadata.annotations | default dict) "tripod-k8s.io/restored-from" | default "" -}}
{{- if and .snapshot (ne .snapshot $restored) (gt (int $there.spec.replicas) 0) -}}
{{- fail (printf "%s is to be restored from %s while it runs: first scale it and the services to 0 (docs/backup.md)" $set .snapshot) -}}
{{- end -}}
{{- else if and (eq .name "etcd-extensions") (lookup "apps/v1" "StatefulSet" .root.Release.Namespace (printf "%s-etcd" (include "tripod.fullname" .root))) -}}
{{- if ne (include "tripod.etcd.splitting" .root) "true" -}}
{{- fail "etcd.mode perService begins with an etcd without custom resources: set extensions.replicas, and those of partitions, to 0, without autoscaling, and copy them first (docs/migrate.md)" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Members without data beside one with data of an etcd with fewer members would form an etcd of their own. Members that find a record of an etcd
whose volumes are gone would wait for it: dict root, set, etcd, resized, snapshot. */ -}}
{{- define "tripod.etcd.checkVolumes" -}}
{{- $replicas := int .etcd.replicas -}}
{{- $members := dig "data" "MEMBERS" "" .resized -}}
{{- if and $members (ne (len (splitList "," $members)) $replicas) -}}
{{- fail (printf "etcd.replicas is %d, and the ConfigMap %s-resized names %d members: set that number, or delete the ConfigMap if the volumes of %s are gone" $replicas .set (len (splitList "," $members)) .set) -}}
{{- end -}}
{{- if and .etcd.persistence.enabled (gt $replicas 1) (not .snapshot) -}}
{{- $first := lookup "v1" "PersistentVolumeClaim" .root.Release.Namespace (printf "data-%s-0" .set) -}}
{{- $last := lookup "v1" "PersistentVolumeClaim" .root.Release.Namespace (printf "data-%s-%d" .set (sub $replicas 1)) -}}
{{- if and $first (not $last) -}}
{{- fail (printf "etcd.replicas is %d, and %s has a volume of its first member, but none of the last one: set the number of members that it had, and run tripod etcd resize then" $replicas .set) -}}
{{- end -}}
{{- if and $members (not $first) -}}
{{- fail (printf "the ConfigMap %s-resized is of an earlier etcd, whose volumes are gone: delete it first" .set) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* etcd refuses data of a later minor version, unless that has stored it in the older form, and of one that is more than one before it. An image without
a version in its tag is the user's own matter: dict set, from, to, downgradedTo. */ -}}
{{- define "tripod.etcd.checkVersion" -}}
{{- $version := ":v?[0-9]+[.][0-9]+[.]" -}}
{{- $from := regexFind "[0-9]+[.][0-9]+" (regexFind $version .from) -}}
{{- $to := regexFind "[0-9]+[.][0-9]+" (regexFind $version .to) -}}
{{- if and $from $to -}}
{{- $step := sub (int (semver (printf "%s.0" $to)).Minor) (int (semver (printf "%s.0" $from)).Minor) -}}
{{- if and (lt $step 0) (ne .downgradedTo $to) -}}
{{- fail (printf "%s has etcd %s, whose data etcd %s refuses: keep etcd.image.tag, or have etcd go back first and set etcd.downgradedTo to %q (docs/upgrade.md)" .set $from $to $to) -}}
{{- end -}}
{{- if or (lt $step -1) (gt $step 1) -}}
{{- fail (printf "%s has etcd %s, and etcd moves one minor version at a time, not to %s: set etcd.image.tag (docs/upgrade.md)" .set $from $to) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* dict root, component, name, snapshot, location. snapshot is the value that names the one to restore, and location where it is, if any. */ -}}
{{- define "tripod.etcd.statefulset" -}}
{{- include "tripod.etcd.check" . -}}
{{- $etcd := include "tripod.etcd.values" . | fromJson -}}
{{- $set := printf "%s-%s" (include "tripod.fullname" .root) .name -}}
{{- $member := printf "$(POD_NAME).%s.%s.svc" $set .root.Release.Namespace -}}
{{- $bucket := hasPrefix "s3://" .location -}}
apiVersion: apps/v1
kind: StatefulSet
metadata:
  {{- include "tripod.metadata" . | nindent 2 }}
spec:
  replicas: {{ $etcd.replicas }}
  serviceName: {{ $set }}
  podManagementPolicy: Parallel
  revisionHistoryLimit: 3
  selector:
    matchLabels:
      {{- include "tripod.etcd.selector" . | nindent 6 }}
    {{- /* All pods match this. */}}
    matchExpressions:
      - {key: tripod-k8s.io/etcd-members, operator: NotIn, values: [{{ $etcd.replicas | quote }}]}
  template:
    metadata:
      labels:
        {{- include "tripod.podLabels" . | nindent 8 }}
        tripod-k8s.io/etcd: {{ .name }}
        {{- with $etcd.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with merge (dict) (ternary (dict "tripod-k8s.io/restored-from" .snapshot) (dict) (ne .snapshot "")) $etcd.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      {{- include "tripod.pod.common" (merge (dict "account" "etcd") .) | nindent 6 }}
      {{- include "tripod.pod.scheduling" (merge (dict "values" $etcd) .) | trim | nindent 6 }}
      terminationGracePeriodSeconds: 30
      {{- with .location }}
      initContainers:
        - name: restore
          image: {{ include "tripod.image" (dict "root" $.root "name" "tripod") }}
          imagePullPolicy: {{ $.root.Values.image.pullPolicy }}
          args:
            - etcd
            - restore
            - {{ . }}
            - --replace
            {{- if $bucket }}
            {{- include "tripod.snapshots.bucketArgs" $.root | nindent 12 }}
            {{- end }}
            {{- if $.root.Values.etcd.restore.otherCluster }}
            - --other-cluster
            {{- end }}
            - --bump-revision={{ int64 $.root.Values.etcd.restore.bumpRevision }}
            - --data-dir=/var/lib/etcd/data
            - --name=$(POD_NAME)
            - --initial-advertise-peer-urls=https://{{ $member }}:2380
            - --initial-cluster=$(MEMBERS)
            - --initial-cluster-token={{ $set }}.{{ $.root.Release.Namespace }}
          envFrom:
            {{- include "tripod.etcd.envFrom" $set | nindent 12 }}
          env:
            {{- include "tripod.env" (dict "container" "restore" "resources" $etcd.resources) | nindent 12 }}
            {{- if $bucket }}
            {{- include "tripod.snapshots.bucketEnv" $.root | nindent 12 }}
            {{- end }}
          resources:
            {{- toYaml $etcd.resources | nindent 12 }}
          securityContext:
            {{- include "tripod.container.security" $ | nindent 12 }}
          volumeMounts:
            - {name: data, mountPath: /var/lib/etcd}
            {{- if $bucket }}
            {{- include "tripod.snapshots.bucketMounts" $.root | nindent 12 }}
            {{- else }}
            - {name: snapshots, mountPath: /snapshots, readOnly: true}
            {{- end }}
      {{- end }}
      containers:
        - name: etcd
          image: {{ include "tripod.reference" $etcd.image }}
          imagePullPolicy: {{ $etcd.image.pullPolicy }}
          command: [etcd]
          args:
            - --name=$(POD_NAME)
            - --data-dir=/var/lib/etcd/data
            - --listen-client-urls=https://{{ $etcd.bindAddress }}:2379
            - --advertise-client-urls=https://{{ $member }}:2379
            - --listen-peer-urls=https://{{ $etcd.bindAddress }}:2380
            - --initial-advertise-peer-urls=https://{{ $member }}:2380
            - --initial-cluster=$(INITIAL_CLUSTER)
            - --initial-cluster-token={{ $set }}.{{ .root.Release.Namespace }}
            - --initial-cluster-state=$(INITIAL_CLUSTER_STATE)
            - --listen-metrics-urls=http://{{ $etcd.bindAddress }}:2381
            - --client-cert-auth=true
            - --cert-file=/etc/etcd/pki/tls.crt
            - --key-file=/etc/etcd/pki/tls.key
            - --trusted-ca-file=/etc/etcd/pki/ca.crt
            - --peer-client-cert-auth=true
            - --peer-cert-file=/etc/etcd/pki/tls.crt
            - --peer-key-file=/etc/etcd/pki/tls.key
            - --peer-trusted-ca-file=/etc/etcd/pki/ca.crt
            {{- /* The authority also signs certificates of clients, which are not members. */}}
            - --peer-cert-allowed-cn=etcd
            - --quota-backend-bytes={{ int64 $etcd.quotaBackendBytes }}
            - --watch-progress-notify-interval=5s
            {{- /* The users of services may not compact. API servers would keep 5 to 10 minutes of history. */}}
            - --auto-compaction-mode=periodic
            - --auto-compaction-retention=5m
            {{- range $etcd.extraArgs }}
            - {{ . | quote }}
            {{- end }}
          envFrom:
            {{- include "tripod.etcd.envFrom" $set | nindent 12 }}
          env:
            {{- include "tripod.env" (dict "container" "etcd" "resources" $etcd.resources) | nindent 12 }}
            {{- with $etcd.env }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          ports:
            - {name: client, containerPort: 2379}
            - {name: peer, containerPort: 2380}
            - {name: metrics, containerPort: 2381}
          startupProbe:
            httpGet: {path: /readyz, port: metrics}
            periodSeconds: 2
            timeoutSeconds: 5
            failureThreshold: 300
          readinessProbe:
            httpGet: {path: /readyz, port: metrics}
            periodSeconds: 5
            timeoutSeconds: 5
            failureThreshold: 3
          livenessProbe:
            httpGet: {path: /livez, port: metrics}
            periodSeconds: 10
            timeoutSeconds: 15
            failureThreshold: 8
          resources:
            {{- toYaml $etcd.resources | nindent 12 }}
          securityContext:
            {{- include "tripod.container.security" . | nindent 12 }}
          volumeMounts:
            - {name: data, mountPath: /var/lib/etcd}
            - {name: pki, mountPath: /etc/etcd/pki, readOnly: true}
      volumes:
        - name: pki
          secret:
            secretName: {{ $set }}-server
            defaultMode: 0440
        {{- if $bucket }}
        {{- include "tripod.snapshots.bucketVolumes" .root | nindent 8 }}
        {{- else if .location }}
        - name: snapshots
          {{- include "tripod.etcd.snapshots" . | nindent 10 }}
        {{- end }}
        {{- if not $etcd.persistence.enabled }}
        - name: data
          emptyDir: {}
        {{- end }}
  {{- if $etcd.persistence.enabled }}
  persistentVolumeClaimRetentionPolicy:
    whenDeleted: {{ $etcd.persistence.whenDeleted }}
    whenScaled: Retain
  volumeClaimTemplates:
    - apiVersion: v1
      kind: PersistentVolumeClaim
      metadata:
        name: data
        labels:
          {{- include "tripod.etcd.selector" . | nindent 10 }}
      spec:
        accessModes: [ReadWriteOnce]
        {{- with $etcd.persistence.storageClassName }}
        storageClassName: {{ . }}
        {{- end }}
        resources:
          requests:
            storage: {{ $etcd.persistence.size }}
  {{- end }}
{{- end -}}
