// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tripod-k8s/tripod/services/search/apis/cluster/v1alpha2"
	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
	"github.com/tripod-k8s/tripod/test/framework"
)

// turmoilTime is how long clusters change while replicas are killed. Set it with INFORMERS=15m.
func turmoilTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("INFORMERS")
	if text == "" {
		return 20 * time.Second
	}
	d, err := time.ParseDuration(text)
	require.NoError(t, err)
	return d
}

// searching returns a client of the objects of a cluster, or of all clusters if the name is empty.
func searching(t *testing.T, config *rest.Config, cluster string) kubernetes.Interface {
	t.Helper()
	config = rest.CopyConfig(config)
	config.Host += resources
	if cluster != "" {
		config.Host += "/clusters/" + cluster
	}
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return client
}

// changing changes config maps of a cluster until the context ends.
func changing(ctx context.Context, client kubernetes.Interface, r *rand.Rand) {
	configMaps := client.CoreV1().ConfigMaps("default")
	for n := 0; ctx.Err() == nil; n++ {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprint("changing-", r.IntN(20)), Labels: map[string]string{"turn": fmt.Sprint(n % 3)},
		}, Data: map[string]string{"n": fmt.Sprint(n)}}
		if r.IntN(4) == 0 {
			configMaps.Delete(ctx, object.Name, metav1.DeleteOptions{}) //nolint:errcheck // the cluster may be away
		} else if _, err := configMaps.Update(ctx, object, metav1.UpdateOptions{}); apierrors.IsNotFound(err) {
			configMaps.Create(ctx, object, metav1.CreateOptions{}) //nolint:errcheck // the cluster may be away
		}
		select { // whatever became of it
		case <-ctx.Done():
		case <-time.After(time.Duration(r.IntN(20)) * time.Millisecond):
		}
	}
}

// known is what a client knows of some objects: their resourceVersions in their clusters, by CLUSTER/NAME.
type known map[string]string

func (k known) add(object metav1.Object) {
	k[object.GetAnnotations()[v1beta1.ClusterAnnotation]+"/"+object.GetName()] = object.GetAnnotations()[v1beta1.ResourceVersionAnnotation]
}

// informer returns what a stock informer has. saw records each state that the informer reports.
func informer(ctx context.Context, t *testing.T, client kubernetes.Interface, saw *sightings, options ...informers.SharedInformerOption) func() known {
	t.Helper()
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, append(options, informers.WithNamespace("default"))...)
	shared := factory.Core().V1().ConfigMaps().Informer()
	_, err := shared.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: saw.add, UpdateFunc: func(_, changed any) { saw.add(changed) }})
	require.NoError(t, err)
	factory.Start(ctx.Done())
	require.True(t, cache.WaitForCacheSync(ctx.Done(), shared.HasSynced))
	return func() known { return knownIn(t, shared.GetStore()) }
}

func knownIn(t *testing.T, objects cache.Store) known {
	all := known{}
	for _, object := range objects.List() {
		accessor, err := meta.Accessor(object)
		require.NoError(t, err)
		all.add(accessor)
	}
	return all
}

// reflector returns what a stock reflector of all clusters knows. Objects of several clusters may have the same name, so it has a key of its own.
func reflector(ctx context.Context, t *testing.T, client kubernetes.Interface, saw *sightings) func() known {
	t.Helper()
	objects := cache.NewStore(func(object any) (string, error) {
		accessor, err := meta.Accessor(object)
		if err != nil {
			return "", err
		}
		return accessor.GetAnnotations()[v1beta1.ClusterAnnotation] + "/" + accessor.GetNamespace() + "/" + accessor.GetName(), nil
	})
	lists := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "configmaps", "default", fields.Everything())
	go cache.NewReflector(lists, &corev1.ConfigMap{}, sighted{objects, saw}, 0).RunWithContext(ctx)
	return func() known { return knownIn(t, objects) }
}

// TestInformersKnowWhatTheClustersHave lets stock informers follow two clusters through search, which change all the time. Meanwhile replicas of search are
// killed, and one of the clusters is killed and forgets its history.
func TestInformersKnowWhatTheClustersHave(t *testing.T) {
	t.Parallel()
	binary, database := environment.Binary("tripod-search"), "--database=sqlite:"+filepath.Join(t.TempDir(), "search.db")
	shared := framework.NewFleet(t, framework.FleetOptions{Replicas: []framework.ReplicaOptions{
		{Name: "core-0", Args: []string{"--disable-admission-plugins=ServiceAccount"}}, {Name: "extensions-0"}, {Name: "aggregator-0"},
		{Name: "search-0", Binary: binary, Args: []string{database, "--member-allow=loopback"}}, {Name: "search-1", Binary: binary, Args: []string{database, "--member-allow=loopback"}},
	}})
	other, err := environment.StartStock(t.Context(), framework.StockOptions{})
	require.NoError(t, err)
	addClusterTo(t, shared, "other", kubeconfig(t, other.Admin()), map[string]any{"group": "", "resources": []any{"configmaps"}})
	awaitConditionIn(t, shared, "other", v1alpha2.Ready, metav1.ConditionTrue, "")

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	labelled := informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = "turn=1" })
	histories := map[string]*history{"hub": follow(ctx, t, shared.EtcdURL), "other": follow(ctx, t, other.EtcdURL)}
	saw := map[string]*sightings{"hub": {}, "other": {}, "other, turn=1": {}, "all": {}}
	followers := map[string]func() known{
		"hub": informer(ctx, t, searching(t, shared.Admin(), "hub"), saw["hub"]), "other": informer(ctx, t, searching(t, shared.Admin(), "other"), saw["other"]),
		"other, turn=1": informer(ctx, t, searching(t, shared.Admin(), "other"), saw["other, turn=1"], labelled), "all": reflector(ctx, t, searching(t, shared.Admin(), ""), saw["all"]),
	}
	members := map[string]kubernetes.Interface{}
	turmoil, stop := context.WithTimeout(ctx, turmoilTime(t))
	defer stop()
	var writers sync.WaitGroup
	for name, config := range map[string]*rest.Config{"hub": shared.Admin(), "other": other.Admin()} {
		if members[name], err = kubernetes.NewForConfig(config); err != nil {
			t.Fatal(err)
		}
		writers.Go(func() { changing(turmoil, members[name], rand.New(rand.NewPCG(uint64(len(name)), 0))) })
	}
	kills := disturb(turmoil, t, shared, other)
	writers.Wait()
	t.Logf("replicas and clusters were killed %d times", kills)

	for name, follower := range followers {
		framework.Eventually(t, "the informer of "+name+" knows what the clusters have", func(ctx context.Context) error {
			want, err := membersHave(ctx, members, name)
			if got := follower(); err == nil && !maps.Equal(want, got) {
				err = fmt.Errorf("it knows %v, and they have %v", got, want)
			}
			return err
		})
		framework.Eventually(t, "the informer of "+name+" received what the clusters had, in order", func(context.Context) error { return saw[name].judge(histories) })
		t.Logf("the informer of %s received %s", name, saw[name])
	}
}

// disturb kills replicas and the cluster in turn, and starts them again. It returns how often.
func disturb(ctx context.Context, t *testing.T, fleet *framework.Fleet, other *framework.Stock) (kills int) {
	t.Helper()
	for ; ctx.Err() == nil; kills++ {
		if kills%3 == 2 {
			require.NoError(t, other.Process.Signal(syscall.SIGKILL))
			<-other.Process.Done()
			require.NoError(t, other.ForgetHistory(t.Context()))
			require.NoError(t, other.Restart(t.Context()))
		} else {
			replica := fleet.Replica(fmt.Sprint("search-", kills%3))
			require.NoError(t, replica.Kill())
			require.NoError(t, replica.Start())
			require.NoError(t, replica.WaitReady(t.Context()))
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(turmoilTime(t)/20, 5*time.Second)): // the others go on undisturbed
		}
	}
	return kills
}

// membersHave returns what one of the informers has to know.
func membersHave(ctx context.Context, members map[string]kubernetes.Interface, informer string) (known, error) {
	have := known{}
	for cluster, client := range members {
		options := metav1.ListOptions{}
		switch informer {
		case cluster, "all":
		case cluster + ", turn=1":
			options.LabelSelector = "turn=1"
		default:
			continue
		}
		list, err := client.CoreV1().ConfigMaps("default").List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			have[cluster+"/"+list.Items[i].Name] = list.Items[i].ResourceVersion
		}
	}
	return have, nil
}
