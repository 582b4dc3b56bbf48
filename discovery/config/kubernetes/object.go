package kubernetes

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// groupOf decodes an object like one in a file. For an object with an error the group has only the faults.
func groupOf(ctx context.Context, o *unstructured.Unstructured, cluster string) (group model.Group, problems []config.Problem) {
	data, err := o.MarshalJSON()
	if err != nil {
		return model.Group{Faults: []string{err.Error()}}, nil
	}
	for _, item := range config.ReadUntil(ctx.Err, data) {
		problems = append(problems, item.Problems...)
		for _, p := range item.Problems {
			if p.Severity == config.Error {
				group.Faults = append(group.Faults, faultOf(p))
			}
		}
		if of := cmp.Or(item.Object, item.Closed); of != nil {
			object := *of
			object.Origin = model.Origin{Record: &model.Record{
				Cluster: cluster, UID: string(o.GetUID()), Generation: o.GetGeneration(), Version: o.GetResourceVersion(),
			}}
			group.Objects = append(group.Objects, &object)
		}
	}
	if group.Empty() {
		group.Faults = []string{fmt.Sprintf("%s of %s is not served", o.GetKind(), o.GetAPIVersion())}
	}
	return group, problems
}

func warningsAmong(problems []config.Problem) []config.Problem {
	return slices.DeleteFunc(slices.Clone(problems), func(p config.Problem) bool { return p.Severity == config.Error })
}

// faultOf returns the text of a problem, with its place in the object.
func faultOf(p config.Problem) string { return strings.TrimSpace(p.Path + " " + p.Message) }
