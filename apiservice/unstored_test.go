// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"errors"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kube-openapi/pkg/common"
)

type moment = metav1.PartialObjectMetadata

var clock = schema.GroupVersion{Group: "clock.example.com", Version: "v1"}

// serviceOf returns a service with one resource. The scheme has the kind, and the list of the kind if lists is true.
func serviceOf(resource Resource, lists bool) *Service {
	return &Service{
		Name: "clock",
		AddToScheme: []func(*runtime.Scheme) error{func(s *runtime.Scheme) error {
			s.AddKnownTypeWithName(clock.WithKind("Moment"), &moment{})
			if lists {
				s.AddKnownTypeWithName(clock.WithKind("MomentList"), &metav1.PartialObjectMetadataList{})
			}
			return nil
		}},
		Definitions: func(common.ReferenceCallback) map[string]common.OpenAPIDefinition { return nil },
		Groups:      []Group{{Name: clock.Group, Versions: []string{clock.Version}, Resources: []Resource{resource}}},
	}
}

var moments = Custom{Name: "moments", Example: &moment{}, New: func(*Environment) (rest.Storage, error) { return nil, errors.New("not made") }}

// parse returns the options for a command line, or what is wrong with it.
func parse(t *testing.T, s *Service, args ...string) error {
	t.Helper()
	o := newOptions(s)
	flags := pflag.NewFlagSet("clock", pflag.ContinueOnError)
	for _, set := range o.Flags().FlagSets {
		flags.AddFlagSet(set)
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	return errors.Join(o.Validate()...)
}

func wants(t *testing.T, err error, text string) {
	t.Helper()
	if text == "" {
		assert.NoError(t, err)
	} else {
		assert.ErrorContains(t, err, text)
	}
}

func TestOnlyAServiceWithObjectsNeedsEtcd(t *testing.T) {
	unstored, stored := serviceOf(moments, true), serviceOf(Objects[*moment]{Name: "moments"}, true)
	wants(t, parse(t, stored), "--etcd-servers must be specified")
	wants(t, parse(t, stored, "--etcd-servers=http://127.0.0.1:2379"), "")
	wants(t, parse(t, unstored), "")
	assert.Nil(t, newOptions(unstored).Etcd)
}

func TestAServiceWithoutEtcdIsStartedAsAllOthersAre(t *testing.T) {
	unstored := serviceOf(moments, true)
	wants(t, parse(t, unstored, "--etcd-servers=https://127.0.0.1:1", "--etcd-cafile=none", "--etcd-certfile=none", "--etcd-keyfile=none",
		"--etcd-prefix=/services/clock", "--etcd-compaction-interval=0", "--etcd-db-metric-poll-interval=0"), "")
	wants(t, parse(t, unstored, "--etcd-compaction-interval=often"), "invalid duration")
	wants(t, parse(t, unstored, "--encryption-provider-config=keys.yaml"), "unknown flag")
}

func TestAKindWithoutAListCanBeCustomOnly(t *testing.T) {
	wants(t, parse(t, serviceOf(moments, false)), "")
	wants(t, parse(t, serviceOf(Objects[*moment]{Name: "moments"}, false), "--etcd-servers=http://127.0.0.1:2379"), "AddToScheme does not add the list of *v1.PartialObjectMetadata")
}

func TestAnAuthorSeesWhatIsWrong(t *testing.T) {
	for want, change := range map[string]func(*Service){
		"EtcdPrefix is set, and no resource is kept in etcd": func(s *Service) { s.EtcdPrefix = "/registry" },
		"a ready check needs Name and Check":                 func(s *Service) { s.ReadyChecks = []ReadyCheck{{Name: "database"}} },
		"two of Groups have the name clock.example.com":      func(s *Service) { s.Groups = append(s.Groups, s.Groups[0]) },
		"group clock.example.com: two resources of version v1 have the name moments": func(s *Service) {
			s.Groups[0].Resources = append(s.Groups[0].Resources, Objects[*moment]{Name: "moments"})
		},
		"": func(*Service) {},
	} {
		s := serviceOf(moments, true)
		change(s)
		wants(t, s.validate(), want)
	}
	s := serviceOf(moments, true)
	other := moments
	other.Versions = []string{"v2"}
	s.Groups[0].Resources = []Resource{other}
	wants(t, parse(t, s), "resource moments: version v2 is not one of the group")
}

// copied has no deep copies of its own, but those of what it embeds.
type copied struct{ moment }

func TestTypesAreChecked(t *testing.T) {
	for name, test := range map[string]struct {
		add  func(*runtime.Scheme) error
		want string
	}{
		"a kind without deep copies": {func(s *runtime.Scheme) error {
			s.AddKnownTypeWithName(clock.WithKind("Moment"), &copied{})
			return nil
		}, "the type *apiservice.copied has no DeepCopyObject of its own: generate it with deepcopy-gen"},
		"a list without deep copies": {func(s *runtime.Scheme) error {
			s.AddKnownTypeWithName(clock.WithKind("Moment"), &moment{})
			s.AddKnownTypeWithName(clock.WithKind("MomentList"), &struct {
				metav1.PartialObjectMetadataList
			}{})
			return nil
		}, "has no DeepCopyObject of its own: generate it with deepcopy-gen"},
		"two types with one kind": {func(s *runtime.Scheme) error {
			s.AddKnownTypeWithName(clock.WithKind("Moment"), &moment{})
			s.AddKnownTypeWithName(clock.WithKind("Moment"), &metav1.Status{})
			return nil
		}, "AddToScheme: Double registration of different types for clock.example.com/v1, Kind=Moment"},
	} {
		t.Run(name, func(t *testing.T) {
			example := runtime.Object(&moment{})
			if name == "a kind without deep copies" {
				example = &copied{}
			}
			s := serviceOf(Custom{Name: "moments", Example: example, New: moments.New}, false)
			s.AddToScheme = []func(*runtime.Scheme) error{test.add}
			err := s.Validate()
			require.ErrorContains(t, err, test.want)
			assert.NotContains(t, err.Error(), "\n", "it is one line")
			wants(t, parse(t, s), test.want)
		})
	}
}

func TestAServiceHasFlagsOfItsOwn(t *testing.T) {
	s := serviceOf(moments, true)
	var database string
	s.AddFlags = func(fs *pflag.FlagSet) { fs.StringVar(&database, "database", "", "Address of the database.") }
	wants(t, parse(t, s, "--database=here"), "")
	assert.Equal(t, "here", database)
}
