package model

import (
	"slices"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"
)

// Dependencies records the questions that were put to a Scope while a value was made, with the answers. While a later
// scope of the same workload gives the same answers, the value stays valid.
type Dependencies struct {
	known   map[question]int // index in answers
	answers []answer
}

type answer struct {
	question
	is any
}

// question can be evaluated again on a later scope. It is comparable; equal questions are recorded once.
type question interface {
	of(s *Scope) any
	same(a, b any) bool
}

// recording returns a scope that gives the answers of s and records each one in a. Everything that may differ in the
// next generation is read through a method; the exported fields describe the workload itself.
func (s *Scope) recording(a *Dependencies) *Scope {
	return &Scope{Namespace: s.Namespace, Labels: s.Labels, dependencies: a, source: s}
}

// ask evaluates a question on a recording scope.
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

// Same reports whether s gives the same answer to every question.
func (a *Dependencies) Same(s *Scope) bool {
	for _, then := range a.answers {
		if !then.same(then.is, then.of(s)) {
			return false
		}
	}
	return true
}

// The questions that can be put to a Scope.
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

// SamePolicy reports whether two policies are the same, or merged again from the same objects.
func SamePolicy(a, b *networking.DestinationRule) bool { return a == b || proto.Equal(a, b) }
