package model_test

import (
	"fmt"
	"slices"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// A mesh is an index of what sources sent, and the next generation shares what has not changed.
func ExampleNew() {
	reviews := &model.Service{
		Right: model.RightFull, Host: "reviews.shop.svc.cluster.local", Namespace: "shop", Name: "reviews", Resolution: model.ResolutionStatic, Addresses: []string{"10.96.0.7"},
		Ports:     []model.Port{{Name: "http", Number: 80, Target: 9080, Protocol: model.HTTP}},
		Endpoints: []model.Endpoint{{Address: "10.1.2.3"}},
	}
	groups := []model.Group{{Services: []*model.Service{reviews}}}
	first := model.New(slices.Values(groups))
	port, _ := first.Service("reviews.shop.svc.cluster.local").Port(80)
	fmt.Println(port.Target, port.Protocol, first.Service("ratings.shop.svc.cluster.local"))

	ratings := &model.Service{Right: model.RightFull, Host: "ratings.shop.svc.cluster.local", Namespace: "shop", Name: "ratings", Resolution: model.ResolutionStatic}
	next := first.Next(slices.Values(append(groups, model.Group{Services: []*model.Service{ratings}})))
	fmt.Println(len(first.Services()), len(next.Services()), first.Service(reviews.Host) == next.Service(reviews.Host))
	// Output:
	// 9080 HTTP <nil>
	// 1 2 true
}
