package main

import (
	"context"
	"fmt"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// generator is a source of made-up services; every tenth has two subsets and a rule that splits between them.
type generator struct {
	services, endpoints int
	changes             chan model.Update
}

func (g *generator) Run(ctx context.Context, updates chan<- model.Update) error {
	groups := map[string]model.Group{}
	for i := range g.services {
		groups[host(i)] = g.service(i, 0, 50)
	}
	select {
	case updates <- model.Update{Groups: groups, Synced: true}:
	case <-ctx.Done():
	}
	for {
		select {
		case u := <-g.changes:
			select {
			case updates <- u:
			case <-ctx.Done():
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}

func host(i int) string { return fmt.Sprintf("service-%04d.default.svc.cluster.local", i) }

// address is that of endpoint j of service i; the first of each is a proxy of the fleet.
func address(i, j int) string { return fmt.Sprintf("10.%d.%d.%d", j+1, i/250, i%250+1) }

// service makes one with a generation of its last endpoint, and a weight of its first subset.
func (g *generator) service(i, generation int, weight int32) model.Group {
	s := &model.Service{
		Host: host(i), Namespace: "default", Created: time.Unix(int64(i), 0), Resolution: model.ResolutionStatic,
		Ports: []model.Port{{Name: "http", Number: 80, Protocol: model.HTTP}},
	}
	for j := range g.endpoints {
		e := model.Endpoint{
			Address: address(i, j), Ports: map[string]uint32{"http": 8080},
			Labels: map[string]string{"version": fmt.Sprintf("v%d", j%2+1)},
		}
		if j == g.endpoints-1 {
			e.Ports = map[string]uint32{"http": uint32(8080 + generation)}
		}
		s.Endpoints = append(s.Endpoints, e)
	}
	group := model.Group{Services: []*model.Service{s}}
	if i%10 == 0 {
		group.Objects = rules(i, weight)
	}
	return group
}

func rules(i int, weight int32) []*model.Object {
	meta := func(kind string) model.Meta {
		return model.Meta{Kind: kind, Namespace: "default", Name: fmt.Sprintf("service-%04d", i)}
	}
	to := func(subset string, weight int32) *networking.HTTPRouteDestination {
		return &networking.HTTPRouteDestination{Destination: &networking.Destination{Host: host(i), Subset: subset}, Weight: weight}
	}
	subset := func(version string) *networking.Subset {
		return &networking.Subset{Name: version, Labels: map[string]string{"version": version}}
	}
	return []*model.Object{
		{Meta: meta("DestinationRule"), Spec: &networking.DestinationRule{
			Host: host(i), Subsets: []*networking.Subset{subset("v1"), subset("v2")},
		}},
		{Meta: meta("VirtualService"), Spec: &networking.VirtualService{
			Hosts: []string{host(i)},
			Http:  []*networking.HTTPRoute{{Route: []*networking.HTTPRouteDestination{to("v1", weight), to("v2", 100-weight)}}},
		}},
	}
}
