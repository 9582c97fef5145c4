// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

const deployments = "/apis/apps/v1/namespaces/compared/deployments"

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: web, ports: [{containerPort: 80}]}
`

const pod = `
apiVersion: v1
kind: Pod
metadata: {name: lonely}
spec:
  containers:
  - {name: main, image: main}
`

// coreObjects writes and reads objects of core.
var coreObjects = []request{
	post(configMaps, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"first"},"data":{"a":"1"}}`),
	post(configMaps+"?fieldValidation=Strict", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"strict"},"unknown":1}`).failing(),
	post(configMaps+"?fieldValidation=Warn", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"warned"},"unknown":1,"data":{"a":"1","a":"2"}}`),
	post(configMaps+"?fieldValidation=Ignore", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"ignored"},"unknown":1}`),
	post(configMaps, ``).body("application/yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: yaml}\n").accept("application/yaml").called("create in YAML"),
	post(configMaps, large("v1", "ConfigMap")).ignoringBody().called("create a large ConfigMap"),
	get(configMaps).header("Accept-Encoding", "gzip"),
	get(configMaps).header("Accept-Encoding", "gzip").accept(protobufType),
	get(configMaps).header("Accept-Encoding", "gzip").accept(tableType),
	get(configMaps).header("Accept-Encoding", "gzip;q=1").ignoringBody(),
	get(configMaps+"?limit=1").header("Accept-Encoding", "gzip"),
	get(configMaps+"/large").header("Accept-Encoding", "gzip"),
	send("HEAD", configMaps).header("Accept-Encoding", "gzip").failing(),
	del(configMaps + "/large").ignoringBody(),
	post(configMaps, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"generated-"}}`).ignoringBody().called("generated name"),
	get(configMaps + "/first"),
	get(configMaps + "/first").accept(protobufType),
	get(configMaps + "/first").accept(tableType),
	get(configMaps + "/first").accept(metadataType),
	get(configMaps + "/first?pretty=true"),
	get(configMaps + "/first").accept("application/json;as=Table;v=v9;g=meta.k8s.io").failing(),
	get(configMaps + "/first").accept("application/json;as=Unknown;v=v1;g=meta.k8s.io").failing(),
	send("HEAD", configMaps+"/first").failing(),
	patch(jsonPatch, configMaps+"/first", `[{"op":"add","path":"/data/b","value":"2"}]`),
	patch(mergePatch, configMaps+"/first", `{"data":{"a":null}}`),
	patch(strategicPatch, configMaps+"/first", `{"data":{"c":"3"}}`),
	patch(mergePatch, configMaps+"/first?dryRun=All", `{"data":{"dry":"run"}}`),
	patch(mergePatch, configMaps+"/first?fieldManager=me", `{"data":{"mine":"yes"}}`),
	apply("one", configMaps+"/first", "apiVersion: v1\nkind: ConfigMap\ndata: {owned: one}\n"),
	apply("two", configMaps+"/first", "apiVersion: v1\nkind: ConfigMap\ndata: {owned: two}\n").called("apply conflict").failing(),
	apply("two", configMaps+"/first?force=true", "apiVersion: v1\nkind: ConfigMap\ndata: {owned: two}\n"),
	apply("one", configMaps+"/applied", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: applied}\ndata: {a: b}\n"),

	post(deployments, deployment),
	get(deployments + "/web").accept(tableType),
	get(deployments + "/web/scale"),
	put(deployments+"/web/scale", `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"web","namespace":"compared"},"spec":{"replicas":5}}`),
	patch(mergePatch, deployments+"/web/status", `{"status":{"replicas":3}}`),
	get(deployments + "/web"),
	get(deployments).accept(tableType),
	get("/apis/apps/v1/deployments?labelSelector=app%3Dweb"),
	get("/apis/apps/v1/deployments?limit=1").accept(metadataListType),

	post(pods, pod),
	get(pods + "/lonely"),
	get(pods + "/lonely").accept(protobufType),
	get(pods).accept(tableType),
	get(pods + "?fieldSelector=spec.nodeName%3D"),
	get(pods + "/lonely/log"),
	post(pods+"/lonely/exec?command=ls", ``).failing(),
	get(pods + "/lonely/portforward").failing(),
	get(pods + "/lonely/proxy/").failing(),
	upgrade(pods+"/lonely/exec?command=ls&stdout=1", "SPDY/3.1").failing(),
	upgrade(pods+"/lonely/exec?command=ls&stdout=1", "websocket").failing(),
	upgrade(pods+"/unknown/attach", "websocket").failing(),
	upgrade(pods+"/lonely/portforward?ports=80", "SPDY/3.1").failing(),
	upgrade(configMaps+"/yaml", "websocket"),
	upgrade(widgets, "websocket"),
	post(pods+"/lonely/binding", `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"lonely"},"target":{"kind":"Node","name":"nowhere"}}`),
	get(pods + "/lonely/log").called("log of a pod on a node that is not there").failing(),
	post(pods+"/lonely/eviction", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"lonely"}}`),
	del(pods + "/lonely?gracePeriodSeconds=0"),

	post(coreNamespaced+"/services", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"web"},"spec":{"type":"NodePort","selector":{"app":"web"},"ports":[{"port":80}]}}`),
	post(coreNamespaced+"/services", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"outside"},"spec":{"type":"ExternalName","externalName":"example.com"}}`).called("create ExternalName"),
	get(coreNamespaced + "/services").accept(tableType),
	post(coreNamespaced+"/endpoints", `{"apiVersion":"v1","kind":"Endpoints","metadata":{"name":"web"}}`),
	post(coreNamespaced+"/secrets", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"stringData":{"a":"b"}}`),
	get(coreNamespaced + "/secrets").accept(tableType),
	post(coreNamespaced+"/events", `{"apiVersion":"v1","kind":"Event","metadata":{"name":"e"},"involvedObject":{"kind":"Pod","namespace":"compared","name":"lonely"},"reason":"Test","message":"m"}`),
	// Only this event: controllers of the control plane write some of their own when they find time.
	get(coreNamespaced + "/events?fieldSelector=reason%3DTest").accept(tableType),
	post("/apis/coordination.k8s.io/v1/namespaces/compared/leases", `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"l"},"spec":{"holderIdentity":"me"}}`),
	post("/apis/autoscaling/v2/namespaces/compared/horizontalpodautoscalers", `{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler",
		"metadata":{"name":"web"},"spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},"maxReplicas":3}}`),
	get("/apis/autoscaling/v1/namespaces/compared/horizontalpodautoscalers/web"),
	post("/apis/policy/v1/namespaces/compared/poddisruptionbudgets", `{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"web"},
		"spec":{"minAvailable":1,"selector":{"matchLabels":{"app":"web"}}}}`),
	post("/apis/networking.k8s.io/v1/namespaces/compared/ingresses", `{"apiVersion":"networking.k8s.io/v1","kind":"Ingress","metadata":{"name":"web"},
		"spec":{"defaultBackend":{"service":{"name":"web","port":{"number":80}}}}}`),
	post("/apis/batch/v1/namespaces/compared/cronjobs", `{"apiVersion":"batch/v1","kind":"CronJob","metadata":{"name":"tick"},"spec":{"schedule":"TZ=UTC * * * * *",
		"jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"a","image":"a"}]}}}}}}`).failing(),
	post("/apis/batch/v1/namespaces/compared/jobs", `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"once"},
		"spec":{"manualSelector":true,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"restartPolicy":"Never","containers":[{"name":"a","image":"a"}]}}}}`),

	// Admission: pod security, limits, quota.
	post("/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"restricted","labels":{
		"pod-security.kubernetes.io/enforce":"baseline","pod-security.kubernetes.io/warn":"restricted"}}}`).called("create a restricted namespace"),
	post("/api/v1/namespaces/restricted/serviceaccounts", `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}}`),
	post("/api/v1/namespaces/restricted/pods", pod),
	post("/api/v1/namespaces/restricted/pods", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"host"},"spec":{"hostNetwork":true,"containers":[{"name":"a","image":"a"}]}}`).called("create a forbidden pod").failing(),
	post("/api/v1/namespaces/restricted/limitranges", `{"apiVersion":"v1","kind":"LimitRange","metadata":{"name":"l"},"spec":{"limits":[{"type":"Container","default":{"cpu":"1"}}]}}`),
	post("/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"limited"}}`).called("create a limited namespace"),
	post("/api/v1/namespaces/limited/resourcequotas", `{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"q"},
		"spec":{"hard":{"count/configmaps":"1","count/widgets.example.com":"1"}}}`),
	patch(mergePatch, "/api/v1/namespaces/limited/resourcequotas/q/status",
		`{"status":{"hard":{"count/configmaps":"1","count/widgets.example.com":"1"},"used":{"count/configmaps":"1","count/widgets.example.com":"1"}}}`),
}

// overQuota is sent when the quota is in force, which a server observes a little after it has stored it.
var overQuota = []request{
	post("/api/v1/namespaces/limited/configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"over"}}`).failing(),
	post("/apis/example.com/v1/namespaces/limited/widgets?dryRun=All", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"over"},"spec":{"color":"red"}}`).failing(),

	// A namespace that goes away keeps what is new out.
	post("/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"ending"}}`).called("create a namespace that ends"),
	del("/api/v1/namespaces/ending"),
	post("/api/v1/namespaces/ending/configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"late"}}`).failing(),
	post("/apis/example.com/v1/namespaces/ending/widgets", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"late"},"spec":{"color":"red"}}`).failing(),
	put("/api/v1/namespaces/ending/finalize", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"ending"},"spec":{"finalizers":[]}}`),

	del(configMaps + "?labelSelector=unknown%3Dlabel"),
	del(configMaps + "/first"),
}

// upgrade asks for another protocol than HTTP, in vain: no pod runs, and objects know no other.
func upgrade(path, protocol string) request {
	r := get(path).as(http1).header("Connection", "Upgrade").header("Upgrade", protocol)
	if protocol == "websocket" {
		r = r.header("Sec-WebSocket-Version", "13").header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
	}
	return r
}
