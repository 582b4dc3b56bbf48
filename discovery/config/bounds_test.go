package config

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Each number and duration of Istio's API that is served has a decision: a new field without one fails here.
func TestEveryNumberHasADecision(t *testing.T) {
	seen, used := map[protoreflect.FullName]bool{}, map[string]bool{}
	var walk func(m protoreflect.MessageDescriptor)
	walk = func(m protoreflect.MessageDescriptor) {
		if seen[m.FullName()] {
			return
		}
		seen[m.FullName()] = true
		for i := range m.Fields().Len() {
			fd := m.Fields().Get(i)
			value := fd
			if fd.IsMap() {
				value = fd.MapValue()
			}
			switch below := value.Message(); {
			case isNumber(value):
				if _, ok := boundOf(fd); !ok {
					t.Errorf("%s has no line in bounds.txt", fd.FullName())
				}
				_, rest, _ := strings.Cut(strings.TrimPrefix(string(fd.FullName()), "istio."), ".")
				_, rest, _ = strings.Cut(rest, ".")
				message, _, _ := strings.Cut(rest, ".")
				used[rest], used[message+".*"] = true, true
			case below != nil && below.ParentFile().Package() != "google.protobuf":
				walk(below)
			}
		}
	}
	for _, name := range KindNames() {
		walk(kindNamed(t, name).spec().ProtoReflect().Descriptor())
	}
	for kind, n := range model.DefaultBounds().All() {
		name := "namespace." + kind
		if used[name] = true; bounds[name].most != float64(n) {
			t.Errorf("bounds.txt: %s is ..%s, want ..%d", name, bounds[name].high, n)
		}
	}
	for name := range bounds {
		if !used[name] {
			t.Errorf("bounds.txt: Istio has no field %s", name)
		}
	}
	decisions := []string{"rule", "counter", "operator", "unread"}
	for line := range strings.SplitSeq(boundsText, "\n") {
		name, what, _ := strings.Cut(line, " ")
		low, high, ok := strings.Cut(what, "..")
		switch {
		case name == "" || name == "#":
		case !ok && !strings.Contains(" "+strings.Join(decisions, " ")+" ", " "+what+" "):
			t.Errorf("bounds.txt: %s is %q, want LEAST..MOST or one of %s", name, what, decisions)
		case ok && (low != "" && amount(low) == 0 || high == "" || amount(high) == 0):
			t.Errorf("bounds.txt: %s is %q, which is not a range", name, what)
		}
	}
}

// A value beyond its bound becomes the bound, and is named with its line.
func TestBounds(t *testing.T) {
	const (
		ring    = `{host: a, trafficPolicy: {loadBalancer: {consistentHash: {useSourceIp: true, ringHash: {minimumRingSize: %s}}}}}`
		old     = `{host: a, trafficPolicy: {loadBalancer: {consistentHash: {useSourceIp: true, minimumRingSize: %s}}}}`
		table   = `{host: a, trafficPolicy: {loadBalancer: {consistentHash: {useSourceIp: true, maglev: {tableSize: %s}}}}}`
		outlier = `{host: a, subsets: [{name: v1, trafficPolicy: {outlierDetection: {interval: %s, consecutive5xxErrors: 4000000000}}}]}`
		probes  = `{host: a, trafficPolicy: {connectionPool: {tcp: {tcpKeepalive: {probes: %s}}}}}`
		route   = `{hosts: [a.test], http: [{route: [{destination: {host: a.test}}], timeout: %s}]}`
		retries = `{hosts: [a.test], http: [{route: [{destination: {host: a.test}}], retries: {attempts: %s}}]}`
		delay   = `{hosts: [a.test], http: [{route: [{destination: {host: a.test}}], fault: {delay: {fixedDelay: %s, percentage: {value: 1}}}}]}`
	)
	for _, test := range []struct {
		kind, spec, given, want, says string
	}{
		{"DestinationRule", ring, "8388608", "65536", "spec.trafficPolicy.loadBalancer.consistentHash.ringHash.minimumRingSize: is 8388608, want at most 65536"},
		{"DestinationRule", ring, "65536", "65536", ""},
		{"DestinationRule", old, "65537", "65536", "spec.trafficPolicy.loadBalancer.consistentHash.minimumRingSize: is 65537, want at most 65536"},
		{"DestinationRule", table, "5000011", "131071", "maglev.tableSize: is 5000011, want at most 131071"},
		{"DestinationRule", outlier, "1ms", "100ms", "spec.subsets[0].trafficPolicy.outlierDetection.interval: is 1ms, want at least 100ms"},
		{"DestinationRule", outlier, "10s", "10s", ""},
		{"DestinationRule", probes, "4294967295", "127", "probes: is 4294967295, want at most 127"},
		{"VirtualService", route, "31536001s", "31536000s", "spec.http[0].timeout: is 31536001s, want at most 8760h"},
		{"VirtualService", route, "0s", "0s", ""},
		{"VirtualService", retries, "2147483647", "100", "spec.http[0].retries.attempts: is 2147483647, want at most 100"},
		{"VirtualService", delay, "86400s", "3600s", "fixedDelay: is 86400s, want at most 1h"},
	} {
		t.Run(test.given, func(t *testing.T) {
			decode := func(value string) (proto.Message, string) {
				objects, problems := Decode("f", object(test.kind, strings.Replace(test.spec, "%s", value, 1)))
				var says []string
				for _, p := range problems {
					says = append(says, string(p.Severity)+" "+p.Path+": "+p.Message)
				}
				if len(objects) != 1 {
					t.Fatalf("refused: %s", says)
				}
				return objects[0].Spec.(proto.Message), strings.Join(says, "; ")
			}
			got, says := decode(test.given)
			if want, _ := decode(test.want); !proto.Equal(got, want) {
				t.Errorf("becomes %v, want %v", got, want)
			}
			if test.says == "" != (says == "") || !strings.Contains(says, test.says) || strings.Contains(says, "error ") {
				t.Errorf("says %q, want a warning %q", says, test.says)
			}
		})
	}
}
