{{- /*
Copyright The Tripod Authors.
SPDX-License-Identifier: Apache-2.0
*/ -}}

{{- /* Whether the pods of a component have a server of konnectivity, true or nothing: dict root, component. These services call kubelets, webhooks and
aggregated API servers. */ -}}
{{- define "tripod.konnectivity.beside" -}}
{{- if and (include "tripod.enabled" (dict "root" .root "path" "konnectivity")) (has (include "tripod.program" .) (list "aggregator" "core" "extensions")) -}}true{{- end -}}
{{- end -}}

{{- define "tripod.konnectivity.label" -}}
tripod-k8s.io/konnectivity: "true"
{{- end -}}

{{- /* The name of the servers for Tripod, whom they ask about the tokens of agents. */ -}}
{{- define "tripod.konnectivity.user" -}}
system:konnectivity-server
{{- end -}}

{{- /* The server beside a service, which connects to it by a socket. It starts before the service, and stops after it. */ -}}
{{- define "tripod.konnectivity.server" -}}
{{- $server := .Values.konnectivity.server -}}
name: konnectivity-server
restartPolicy: Always
image: {{ include "tripod.reference" $server.image }}
imagePullPolicy: {{ $server.image.pullPolicy }}
command: [/proxy-server]
args:
  - --mode=grpc
  - --uds-name=/run/konnectivity/server.sock
  - --server-port=0
  - --agent-port=8132
  - --admin-port=8133
  - --health-port=8134
  - --cluster-cert=/etc/tripod/pki/own/tls.crt
  - --cluster-key=/etc/tripod/pki/own/tls.key
  - --kubeconfig=/etc/tripod/konnectivity/kubeconfig.yaml
  {{- /* After a restart, every agent sends its token at once. */}}
  - --kubeconfig-qps=75
  - --kubeconfig-burst=150
  - --agent-namespace=konnectivity
  - --agent-service-account=konnectivity-agent
  - --authentication-audience={{ include "tripod.konnectivity.user" . }}
  {{- /* The agent of a node connects to its kubelet. For other addresses, any agent will do. */}}
  - --proxy-strategies=destHost,default
  {{- /* Agents count the leases, so that they connect to every server. */}}
  - --enable-lease-controller
  - --lease-namespace=konnectivity
  - --server-id=$(POD_NAME)
  - --keepalive-time=30s
  - --backend-dial-timeout=10s
  - --graceful-shutdown-timeout=1s
  - --v={{ .Values.logging.verbosity }}
  {{- range $server.extraArgs }}
  - {{ . | quote }}
  {{- end }}
env:
  {{- include "tripod.env" (dict "container" "konnectivity-server" "resources" $server.resources) | nindent 2 }}
ports:
  - {name: konnectivity, containerPort: 8132}
{{- /* Without an agent, it is not ready, but agents come only after Tripod has started. */}}
startupProbe:
  httpGet: {path: /healthz, port: 8134}
  periodSeconds: 1
  timeoutSeconds: 5
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: 8134}
  timeoutSeconds: 10
  failureThreshold: 6
resources:
  {{- toYaml $server.resources | nindent 2 }}
securityContext:
  {{- include "tripod.container.security" . | nindent 2 }}
volumeMounts:
  - {name: konnectivity-pki, mountPath: /etc/tripod/pki, readOnly: true}
  {{- include "tripod.konnectivity.mounts" . | nindent 2 }}
{{- end -}}

{{- /* What a server and its service share. */ -}}
{{- define "tripod.konnectivity.mounts" -}}
- {name: konnectivity, mountPath: /etc/tripod/konnectivity, readOnly: true}
- {name: konnectivity-socket, mountPath: /run/konnectivity}
{{- end -}}

{{- define "tripod.konnectivity.volumes" -}}
- name: konnectivity
  configMap: {name: {{ include "tripod.fullname" . }}-konnectivity}
- name: konnectivity-socket
  emptyDir: {}
- name: konnectivity-pki
  projected:
    defaultMode: 0440
    sources:
      {{- include "tripod.pki.leaf" (dict "secret" (printf "%s-konnectivity" (include "tripod.fullname" .)) "directory" "own" "ca" "ca.crt") | nindent 6 }}
{{- end -}}

{{- /* The objects that the servers and agents need in Tripod. Their namespace has nothing else, so that its leases are all that servers may delete. */ -}}
{{- define "tripod.konnectivity.manifests" -}}
apiVersion: v1
kind: Namespace
metadata:
  name: konnectivity
  labels:
    pod-security.kubernetes.io/enforce: restricted
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ include "tripod.konnectivity.user" . }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: system:auth-delegator
subjects:
  - apiGroup: rbac.authorization.k8s.io
    kind: User
    name: {{ include "tripod.konnectivity.user" . }}
{{- $verbs := dict "server" (list "create" "get" "update" "list" "delete") "agent" (list "list" "watch") }}
{{- $subjects := dict
  "server" (dict "apiGroup" "rbac.authorization.k8s.io" "kind" "User" "name" (include "tripod.konnectivity.user" .))
  "agent" (dict "kind" "ServiceAccount" "name" "konnectivity-agent" "namespace" "konnectivity") }}
{{- range $who, $verbs := $verbs }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: konnectivity-{{ $who }}
  namespace: konnectivity
rules:
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    verbs: {{ toJson $verbs }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: konnectivity-{{ $who }}
  namespace: konnectivity
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: konnectivity-{{ $who }}
subjects:
  - {{ get $subjects $who | toJson }}
{{- end }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: konnectivity-agent
  namespace: konnectivity
automountServiceAccountToken: false
---
{{ include "tripod.konnectivity.agent" . }}
{{- end -}}

{{- /* The agents: one on each node. */ -}}
{{- define "tripod.konnectivity.agent" -}}
{{- $agent := .Values.konnectivity.agent -}}
{{- $endpoint := include "tripod.konnectivity.endpoint" . -}}
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: konnectivity-agent
  namespace: konnectivity
  labels:
    k8s-app: konnectivity-agent
spec:
  selector:
    matchLabels:
      k8s-app: konnectivity-agent
  updateStrategy:
    rollingUpdate:
      maxUnavailable: 10%
  template:
    metadata:
      labels:
        k8s-app: konnectivity-agent
    spec:
      serviceAccountName: konnectivity-agent
      {{- /* It counts leases, with this token. The token for servers is another. */}}
      automountServiceAccountToken: true
      enableServiceLinks: false
      priorityClassName: system-node-critical
      {{- with $agent.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $agent.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        fsGroup: 65532
        seccompProfile:
          type: RuntimeDefault
      containers:
        - name: konnectivity-agent
          image: {{ include "tripod.reference" $agent.image }}
          imagePullPolicy: {{ $agent.image.pullPolicy }}
          command: [/proxy-agent]
          args:
            - --proxy-server-host={{ include "tripod.endpoint.host" $endpoint }}
            - --proxy-server-port={{ regexFind "[0-9]+$" $endpoint }}
            - --ca-cert=/var/run/secrets/kubernetes.io/serviceaccount/ca.crt
            - --service-account-token-path=/var/run/secrets/konnectivity/token
            - --agent-id=$(POD_NAME)
            - --agent-identifiers=host=$(HOST_IP)
            - --count-server-leases
            - --lease-namespace=konnectivity
            {{- /* Servers refuse pings that come more often than every 30 seconds. */}}
            - --keepalive-time=60s
            - --v={{ .Values.logging.verbosity }}
            {{- range $agent.extraArgs }}
            - {{ . | quote }}
            {{- end }}
          env:
            {{- include "tripod.env" (dict "container" "konnectivity-agent" "resources" $agent.resources) | nindent 12 }}
            - name: HOST_IP
              valueFrom:
                fieldRef:
                  fieldPath: status.hostIP
          readinessProbe:
            httpGet: {path: /readyz, port: 8093}
            timeoutSeconds: 5
          livenessProbe:
            httpGet: {path: /healthz, port: 8093}
            timeoutSeconds: 10
            failureThreshold: 6
          resources:
            {{- toYaml $agent.resources | nindent 12 }}
          securityContext:
            {{- include "tripod.container.security" . | nindent 12 }}
          volumeMounts:
            - {name: token, mountPath: /var/run/secrets/konnectivity, readOnly: true}
      volumes:
        - name: token
          projected:
            sources:
              - serviceAccountToken:
                  path: token
                  audience: {{ include "tripod.konnectivity.user" . }}
{{- end -}}
