package model

import (
	"slices"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"
)

// Dependencies are the questions that a Scope was asked while a value was made, with their answers. As long as a later
// scope of the same workload gives the same answers, it is the same value.
type Dependencies struct {
	known   map[question]int // index in answers
	answers []answer
}

type answer struct {
	question
	is any
}

// question can be asked again. It is comparable, and equal questions are one.
type question interface {
	of(s *Scope) any
	same(a, b any) bool
}

// recording returns a scope that answers as s does and records each answer in a. All that may differ in the next
// generation is behind a method: the fields of what it returns hold what is true of the workload itself.
func (s *Scope) recording(a *Dependencies) *Scope {
	return &Scope{Namespace: s.Namespace, Labels: s.Labels, dependencies: a, source: s}
}

// ask answers a question of a recording scope.
func ask[T any](s *Scope, q question) T {
	a := s.dependencies
	if i, ok := a.known[q]; ok {
		return a.answers[i].is.(T)
	}
	if a.known == nil {
		a.known = map[question]int{}
	}
	a.known[q] = len(a.answers)
	is := q.of(s.source)
	a.answers = append(a.answers, answer{q, is})
	return is.(T)
}

// same reports whether s gives every answer again.
func (a *Dependencies) same(s *Scope) bool {
	for _, then := range a.answers {
		if !then.same(then.is, then.of(s)) {
			return false
		}
	}
	return true
}

// The questions that a Scope can be asked.
type (
	serviceQuestion  struct{ host string }
	policyQuestion   struct{ host, namespace string }
	settingsQuestion struct{}
	outboundQuestion struct{}
	servicesQuestion struct {
		egress int
		port   uint32
	}
	ruleQuestion struct {
		egress int
		host   string
	}
	rulesQuestion struct{ egress int }
)

func (q serviceQuestion) of(s *Scope) any  { return s.mesh.bare(s.Service(q.host)) }
func (serviceQuestion) same(a, b any) bool { return a == b }

func (q policyQuestion) of(s *Scope) any { return s.policyFor(q.host, q.namespace) }

func (q policyQuestion) same(a, b any) bool {
	return SamePolicy(a.(*networking.DestinationRule), b.(*networking.DestinationRule))
}

func (settingsQuestion) of(s *Scope) any    { return s.Settings() }
func (settingsQuestion) same(a, b any) bool { return a == b }

func (outboundQuestion) of(s *Scope) any { return s.OutboundPolicy() }

func (outboundQuestion) same(a, b any) bool {
	x, y := a.(OutboundPolicy), b.(OutboundPolicy)
	return x.RegistryOnly == y.RegistryOnly && proto.Equal(x.Proxy, y.Proxy)
}

func (q servicesQuestion) of(s *Scope) any {
	services := s.ServicesOn(q.egress, q.port)
	for i := range services {
		services[i] = s.mesh.bare(services[i])
	}
	return services
}

func (servicesQuestion) same(a, b any) bool { return slices.Equal(a.([]*Service), b.([]*Service)) }

func (q ruleQuestion) of(s *Scope) any  { return s.Rule(q.egress, q.host) }
func (ruleQuestion) same(a, b any) bool { return a == b }

func (q rulesQuestion) of(s *Scope) any  { return s.Rules(q.egress) }
func (rulesQuestion) same(a, b any) bool { return slices.Equal(a.(Rules).All(), b.(Rules).All()) }

// SamePolicy holds for the same policy, and for one that was merged again of the same.
func SamePolicy(a, b *networking.DestinationRule) bool { return a == b || proto.Equal(a, b) }
