package model

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	networking "istio.io/api/networking/v1alpha3"
)

// The root's fields apply where the delegate leaves them unset, and only there. The old and the new spelling of one
// setting count as one field.
func TestTheRootFillsWhatADelegateLeavesUnset(t *testing.T) {
	seconds := func(n int) *durationpb.Duration { return durationpb.New(time.Duration(n) * time.Second) }
	to := func(host string) []*networking.HTTPRouteDestination {
		return []*networking.HTTPRouteDestination{{Destination: &networking.Destination{Host: host}}}
	}
	root := &networking.HTTPRoute{
		Delegate: &networking.Delegate{Name: "child"}, Timeout: seconds(5), Retries: &networking.HTTPRetry{Attempts: 1},
		Headers:          &networking.Headers{Request: &networking.Headers_HeaderOperations{Set: map[string]string{"x": "root"}}},
		Mirror:           &networking.Destination{Host: "root"},
		MirrorPercentage: &networking.Percent{Value: 10},
	}
	for name, test := range map[string]struct{ child, want *networking.HTTPRoute }{
		"nothing": {
			&networking.HTTPRoute{Route: to("own")},
			&networking.HTTPRoute{
				Route: to("own"), Timeout: root.Timeout, Retries: root.Retries, Headers: root.Headers, Mirror: root.Mirror,
				MirrorPercentage: root.MirrorPercentage,
			},
		},
		"all": {
			&networking.HTTPRoute{
				Route: to("own"), Timeout: seconds(1), Retries: &networking.HTTPRetry{}, Headers: &networking.Headers{},
				Mirror: &networking.Destination{Host: "own"}, MirrorPercentage: &networking.Percent{Value: 1},
			},
			&networking.HTTPRoute{
				Route: to("own"), Timeout: seconds(1), Retries: &networking.HTTPRetry{}, Headers: &networking.Headers{},
				Mirror: &networking.Destination{Host: "own"}, MirrorPercentage: &networking.Percent{Value: 1},
			},
		},
		"mirrors instead of a mirror": {
			&networking.HTTPRoute{
				Route: to("own"), Timeout: seconds(1), Retries: root.Retries, Headers: root.Headers,
				Mirrors: []*networking.HTTPMirrorPolicy{{Destination: &networking.Destination{Host: "own"}}},
			},
			&networking.HTTPRoute{
				Route: to("own"), Timeout: seconds(1), Retries: root.Retries, Headers: root.Headers,
				Mirrors:          []*networking.HTTPMirrorPolicy{{Destination: &networking.Destination{Host: "own"}}},
				MirrorPercentage: root.MirrorPercentage,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, mergeRoute(root, test.child), protocmp.Transform()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A route of a delegate is used if each of its conditions is within one of the root's; the order is that of the
// delegate.
func TestADelegatesConditionsAreWithinTheRoots(t *testing.T) {
	prefix := func(paths ...string) (out []*networking.HTTPMatchRequest) {
		for _, p := range paths {
			out = append(out, &networking.HTTPMatchRequest{
				Uri: &networking.StringMatch{MatchType: &networking.StringMatch_Prefix{Prefix: p}},
			})
		}
		return out
	}
	one := func(m *networking.HTTPMatchRequest) []*networking.HTTPMatchRequest {
		return []*networking.HTTPMatchRequest{m}
	}
	for name, test := range map[string]struct {
		root, child, want []*networking.HTTPMatchRequest
	}{
		"the delegate's order": {prefix("/b", "/a"), prefix("/a/1", "/b/1", "/a/2"), prefix("/a/1", "/b/1", "/a/2")},
		"one is elsewhere":     {prefix("/a"), prefix("/a/1", "/c"), nil},
		"a gateway is not the root's": {
			one(&networking.HTTPMatchRequest{Gateways: []string{"a/gw"}}), one(&networking.HTTPMatchRequest{Gateways: []string{"mesh"}}), nil,
		},
		"another label": {
			one(&networking.HTTPMatchRequest{SourceLabels: map[string]string{"app": "a"}}),
			one(&networking.HTTPMatchRequest{SourceLabels: map[string]string{"app": "b"}}), nil,
		},
		"a further label": {
			one(&networking.HTTPMatchRequest{SourceLabels: map[string]string{"app": "a"}}),
			one(&networking.HTTPMatchRequest{SourceLabels: map[string]string{"version": "1"}}),
			one(&networking.HTTPMatchRequest{SourceLabels: map[string]string{"app": "a", "version": "1"}}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := mergeMatches(test.root, test.child)
			if diff := cmp.Diff(test.want, got, protocmp.Transform()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
