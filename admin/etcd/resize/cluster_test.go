// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package resize

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/tripod-k8s/tripod/admin/etcd/access"
	"github.com/tripod-k8s/tripod/local/replicas"
)

const setName = "tripod-etcd"

// Resources of the objects that the test makes without a client.
var (
	podsResource   = corev1.SchemeGroupVersion.WithResource("pods")
	claimsResource = corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
	mapsResource   = corev1.SchemeGroupVersion.WithResource("configmaps")
)

// cluster has a release whose members are real, in this process. It does what the StatefulSet controller and kubelets do: it starts and stops
// members, with the ConfigMaps that are there when they start.
type cluster struct {
	t      *testing.T
	client *fake.Clientset
	dir    string
	// strict has etcd refuse changes for some seconds after another, as it does by default.
	strict bool
	peers  []string
	urls   []string

	began time.Time
	// rolls is the number of pods that a rollout has still to replace.
	rolls atomic.Int32

	mu   sync.Mutex
	pods map[int]*pod
	uid  int
	// started counts how often each member has started.
	started [maxMembers]int
}

// pod is a member of etcd that runs until stop is called.
type pod struct {
	stop  context.CancelFunc
	ended chan struct{}
}

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "a", Name: name, Labels: map[string]string{labelPartOf: "tripod", labelRelease: "tripod"}}
}

func stateful(members int) *appsv1.StatefulSet {
	about := meta(setName)
	about.UID, about.Annotations = "first", map[string]string{"meta.helm.sh/release-name": "tripod"}
	return &appsv1.StatefulSet{ObjectMeta: about, Spec: appsv1.StatefulSetSpec{
		Replicas: ptr.To(int32(members)),
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{labelEtcd: "etcd"}, MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: labelMembers, Operator: metav1.LabelSelectorOpNotIn, Values: []string{strconv.Itoa(members)}},
		}},
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: dataVolume}}},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{labelEtcd: "etcd"}}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "etcd"}},
		}},
	}}
}

func podTemplate(args ...string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Args: args}}}}
}

// serverCertificate has the names of the first members.
func serverCertificate(t *testing.T, members int) *corev1.Secret {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	for i := range members {
		template.DNSNames = append(template.DNSNames, fmt.Sprintf("%s-%d.%s.a.svc", setName, i, setName))
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	secret := &corev1.Secret{ObjectMeta: meta(setName + "-server")}
	secret.Data = map[string][]byte{corev1.TLSCertKey: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
	return secret
}

// objects are those of a release.
func objects(t *testing.T, members int) []runtime.Object {
	t.Helper()
	var urls []string
	for i := range members {
		urls = append(urls, fmt.Sprintf("https://%s-%d.%s.a.svc:2379", setName, i, setName))
	}
	servers := strings.Join(urls, ",")
	return []runtime.Object{
		stateful(members), serverCertificate(t, maxMembers),
		&appsv1.Deployment{ObjectMeta: meta("tripod-core"), Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](2), Template: podTemplate("core", "--etcd-servers="+servers, "--v=2")}},
		&appsv1.Deployment{ObjectMeta: meta("tripod-extensions"), Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](2), Template: podTemplate("--group-etcd-servers=*.example.org="+servers, "--etcd-servers=https://other:2379")}},
		&batchv1.CronJob{ObjectMeta: meta("tripod-etcd-snapshot"), Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{
			Spec: batchv1.JobSpec{Template: podTemplate("etcd", "snapshot", "--endpoints="+servers)}}}},
	}
}

// newCluster returns a cluster whose etcd runs.
func newCluster(t *testing.T, members int, strict bool, change ...func([]runtime.Object)) *cluster {
	t.Helper()
	all := objects(t, members)
	for _, change := range change {
		change(all)
	}
	c := &cluster{t: t, client: fake.NewClientset(all...), dir: t.TempDir(), strict: strict, pods: map[int]*pod{}, began: time.Now()}
	free := freeURLs(t, 2*maxMembers)
	c.peers, c.urls = free[:maxMembers], free[maxMembers:]
	var initial []string
	for i := range members {
		initial = append(initial, fmt.Sprintf("%s-%d=%s", setName, i, c.peers[i]))
	}
	chart := &corev1.ConfigMap{ObjectMeta: meta(setName + "-members"), Data: map[string]string{
		keyInitial: strings.Join(initial, ","), keyState: "new"}}
	require.NoError(t, c.client.Tracker().Add(chart))
	c.client.PrependReactor("*", "statefulsets", c.react)
	c.client.PrependReactor("*", "statefulsets", c.dryRun)
	c.client.PrependReactor("get", "deployments", c.rolledOut)
	c.client.PrependReactor("list", "pods", c.listPods)
	t.Cleanup(func() { c.scale(0) })
	c.scale(members)
	for i := range members {
		c.await("the first members are ready", func() bool { return c.isReady(i) })
	}
	return c
}

// freeURLs returns URLs of free ports, which are all reserved until all are found.
func freeURLs(t *testing.T, n int) (found []string) {
	t.Helper()
	for range n {
		port, err := replicas.ReservePort()
		require.NoError(t, err)
		defer port.Release()
		found = append(found, strings.Replace(port.URL(), "https", "http", 1))
	}
	return found
}

// await returns when a condition is met.
func (c *cluster) await(what string, is func() bool) {
	c.t.Helper()
	require.Eventually(c.t, is, 2*time.Minute, 20*time.Millisecond, what)
}

// react does what the API server does with StatefulSets, then what their controller does.
func (c *cluster) react(action clienttesting.Action) (bool, runtime.Object, error) {
	if created, ok := action.(clienttesting.CreateAction); ok && action.GetVerb() == "create" {
		c.uid++
		created.GetObject().(*appsv1.StatefulSet).UID = types.UID(fmt.Sprint(c.uid))
	}
	if deleted, ok := action.(clienttesting.DeleteActionImpl); ok {
		assert.Equal(c.t, metav1.DeletePropagationOrphan, *deleted.DeleteOptions.PropagationPolicy)
	}
	handled, object, err := clienttesting.ObjectReaction(c.client.Tracker())(action)
	set, ok := object.(*appsv1.StatefulSet)
	if err != nil || !ok || set == nil {
		return handled, object, err
	}
	if action.GetVerb() != "get" && action.GetVerb() != "delete" {
		c.scale(int(*set.Spec.Replicas))
	}
	set = set.DeepCopy()
	set.Status.ObservedGeneration, set.Status.Replicas = set.Generation, *set.Spec.Replicas
	set.Status.UpdatedReplicas = set.Status.Replicas - c.rolls.Load()
	return handled, set, err
}

// isDryRun reports whether an action changes nothing in an API server.
func isDryRun(action clienttesting.Action) bool {
	switch a := action.(type) {
	case clienttesting.CreateActionImpl:
		return len(a.CreateOptions.DryRun) > 0
	case clienttesting.DeleteActionImpl:
		return len(a.DeleteOptions.DryRun) > 0
	}
	return false
}

// changes reports whether an action changes something.
func changes(action clienttesting.Action) bool {
	verb := action.GetVerb()
	return verb != "get" && verb != "list" && verb != "watch" && action.GetResource().Resource != "leases" && !isDryRun(action)
}

// dryRun answers as the API server does to what is only tried.
func (c *cluster) dryRun(action clienttesting.Action) (bool, runtime.Object, error) {
	if !isDryRun(action) {
		return false, nil, nil
	}
	resource := action.GetResource()
	_, err := c.client.Tracker().Get(resource, "a", setName)
	if action.GetVerb() == "create" && err == nil {
		err = apierrors.NewAlreadyExists(resource.GroupResource(), setName)
	}
	return true, nil, err
}

// rolledOut says that a Deployment has its new pods.
func (c *cluster) rolledOut(action clienttesting.Action) (bool, runtime.Object, error) {
	handled, object, err := clienttesting.ObjectReaction(c.client.Tracker())(action)
	if d, ok := object.(*appsv1.Deployment); ok && err == nil {
		d = d.DeepCopy()
		n := *d.Spec.Replicas
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, AvailableReplicas: n}
		return handled, d, nil
	}
	return handled, object, err
}

// listPods returns those of Deployments, too.
func (c *cluster) listPods(action clienttesting.Action) (bool, runtime.Object, error) {
	handled, object, err := clienttesting.ObjectReaction(c.client.Tracker())(action)
	if err != nil {
		return handled, object, err
	}
	all := object.(*corev1.PodList)
	found, err := c.client.Tracker().List(appsv1.SchemeGroupVersion.WithResource("deployments"), appsv1.SchemeGroupVersion.WithKind("Deployment"), "a")
	if err != nil {
		return true, nil, err
	}
	for _, d := range found.(*appsv1.DeploymentList).Items {
		all.Items = append(all.Items, corev1.Pod{ObjectMeta: meta(d.Name + "-x"), Spec: d.Spec.Template.Spec})
	}
	return true, all, nil
}

// scale starts and stops members.
func (c *cluster) scale(replicas int) {
	var ending []*pod
	c.mu.Lock()
	for i := range maxMembers {
		p := c.pods[i]
		switch {
		case i < replicas && p == nil:
			ctx, cancel := context.WithCancel(context.Background())
			p = &pod{stop: cancel, ended: make(chan struct{})}
			c.pods[i] = p
			c.put(podsResource, &corev1.Pod{ObjectMeta: podMeta(i)})
			if c.put(claimsResource, &corev1.PersistentVolumeClaim{ObjectMeta: meta(dataVolume + "-" + name(i))}) {
				assert.NoError(c.t, os.RemoveAll(filepath.Join(c.dir, name(i)))) // a new volume is empty
			}
			go c.run(ctx, i, p)
		case i >= replicas && p != nil:
			p.stop()
			delete(c.pods, i)
			ending = append(ending, p)
		}
	}
	c.mu.Unlock()
	if replicas == 0 {
		for _, p := range ending {
			<-p.ended
		}
	}
}

func podMeta(ordinal int) metav1.ObjectMeta {
	about := meta(name(ordinal))
	about.Labels[labelEtcd] = "etcd"
	return about
}

func name(ordinal int) string { return fmt.Sprintf("%s-%d", setName, ordinal) }

// put creates an object unless it is there, and reports whether it did.
func (c *cluster) put(resource schema.GroupVersionResource, object runtime.Object) bool {
	err := c.client.Tracker().Create(resource, object, "a")
	if apierrors.IsAlreadyExists(err) {
		return false
	}
	return assert.NoError(c.t, err)
}

// run runs a member as a kubelet does: it starts it again when it ends.
func (c *cluster) run(ctx context.Context, ordinal int, p *pod) {
	defer close(p.ended)
	for ctx.Err() == nil {
		c.once(ctx, ordinal)
	}
	_ = c.client.Tracker().Delete(podsResource, "a", name(ordinal)) // the last one of the test may be gone
}

// config is that of a member, from the ConfigMaps that are there.
func (c *cluster) config(ordinal int) *embed.Config {
	config := embed.NewConfig()
	config.Name, config.LogLevel, config.UnsafeNoFsync, config.StrictReconfigCheck = name(ordinal), "fatal", true, c.strict
	config.Dir = filepath.Join(c.dir, name(ordinal))
	config.TickMs, config.ElectionMs = 50, 1000
	config.ListenPeerUrls, config.ListenClientUrls = parsed(c.t, c.peers[ordinal]), parsed(c.t, c.urls[ordinal])
	config.AdvertisePeerUrls, config.AdvertiseClientUrls = config.ListenPeerUrls, config.ListenClientUrls
	for _, suffix := range []string{"-members", recordSuffix} { // the last one counts
		found, err := c.client.Tracker().Get(mapsResource, "a", setName+suffix)
		if err == nil {
			config.InitialCluster, config.ClusterState = found.(*corev1.ConfigMap).Data[keyInitial], found.(*corev1.ConfigMap).Data[keyState]
		}
	}
	return config
}

// once runs a member until it ends.
func (c *cluster) once(ctx context.Context, ordinal int) {
	server, err := embed.StartEtcd(c.config(ordinal))
	if err != nil {
		select {
		case <-time.After(100 * time.Millisecond): // as a container that crashes
		case <-ctx.Done():
		}
		return
	}
	defer server.Close()
	select {
	case <-server.Server.ReadyNotify():
	case <-server.Server.StopNotify():
		return
	case <-ctx.Done():
		return
	}
	c.mu.Lock()
	c.started[ordinal]++
	c.mu.Unlock()
	ready := &corev1.Pod{ObjectMeta: podMeta(ordinal)}
	ready.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	assert.NoError(c.t, c.client.Tracker().Update(podsResource, ready, "a"))
	select {
	case <-server.Server.StopNotify():
	case <-ctx.Done():
	}
}

func parsed(t *testing.T, address string) []url.URL {
	found, err := url.Parse(address)
	assert.NoError(t, err)
	return []url.URL{*found}
}

func (c *cluster) isReady(ordinal int) bool {
	found, err := c.client.Tracker().Get(podsResource, "a", name(ordinal))
	return err == nil && len(found.(*corev1.Pod).Status.Conditions) > 0
}

// hasClaim reports whether the volume of a member is there.
func (c *cluster) hasClaim(ordinal int) bool {
	_, err := c.client.Tracker().Get(claimsResource, "a", dataVolume+"-"+name(ordinal))
	return err == nil
}

func (c *cluster) options(members int) Options {
	return Options{Client: c.client, Namespace: "a", Release: "tripod", Members: members, Progress: c.say}
}

// say logs a line with the time since the test began, so that a failure shows where time went.
func (c *cluster) say(line string) { c.t.Logf("%6.2f %s", time.Since(c.began).Seconds(), line) }

// resize resizes the etcd as Resize does, at the addresses of this process.
func (c *cluster) resize(ctx context.Context, o Options) error {
	all, err := c.find(ctx, o)
	if err != nil {
		return err
	}
	return each(all, func(r *resizer) error { return r.locked(ctx, r.run) })
}

func (c *cluster) find(ctx context.Context, o Options) ([]*resizer, error) {
	all, err := find(ctx, o)
	for _, r := range all {
		r.interval = 20 * time.Millisecond
		r.peerURL = func(ordinal int) string { return c.peers[ordinal] }
		r.clientURL = func(ordinal int) string { return c.urls[ordinal] }
		r.connect = func(_ context.Context, endpoints ...string) (*clientv3.Client, error) {
			return access.Connect(endpoints, "", "", "")
		}
	}
	return all, err
}
