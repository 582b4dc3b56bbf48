package config

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
)

// fastDecoderAgrees reads each object of data on both paths: for every object that the fast one accepts, the slow one
// gives the same result.
func fastDecoderAgrees(t *testing.T, data []byte) (taken int) {
	t.Helper()
	roots, _ := documents(data)
	for _, root := range unpack(roots) {
		e, _ := readEnvelope(root)
		k, served := kindOf(e.apiVersion, e.kind)
		if !served {
			continue
		}
		short, long := k.spec(), k.spec()
		lines, ok := decodeFast(e.spec, e.specLine, e.meta.Origin.Line, short)
		if !ok {
			continue
		}
		taken++
		found, faults := decodeSpec(e.spec, e.specLine, long, func() bool { return false })
		if len(faults) > 0 {
			t.Fatalf("taken, though %v:\n%s", faults, data)
		}
		if diff := cmp.Diff(long, short, protocmp.Transform()); diff != "" {
			t.Fatalf("(-long +short):\n%s\n%s", diff, data)
		}
		if lines != found.lines(e.meta.Origin.Line) {
			t.Fatalf("lines are %q, want %q\n%s", lines, found.lines(e.meta.Origin.Line), data)
		}
	}
	return taken
}

func TestStraight(t *testing.T) {
	if n := fastDecoderAgrees(t, services(1)); n != 1 {
		t.Error("a service of the benchmark takes the long way")
	}
	for kind, fields := range map[string][]string{
		"DestinationRule": {
			"host: ", "trafficPolicy: {tls: {mode: %s, sni: b}}", "trafficPolicy: {connectionPool: {tcp: {maxConnections: %s, connectTimeout: 1s}}}",
			"trafficPolicy: {outlierDetection: {consecutive5xxErrors: %s, splitExternalLocalOriginErrors: false}}",
			"trafficPolicy: {loadBalancer: {warmup: {duration: %s, minimumPercent: 5}}}", "subsets: [{name: a, labels: {b: %s}}]",
			"trafficPolicy: {outlierDetection: {splitExternalLocalOriginErrors: %s}}", "trafficPolicy: {loadBalancer: {warmup: {aggression: %s}}}",
			"subsets: [{name: a, labels: {%s: b}}]", "exportTo: [%s]", "exportTo: %s", "%s: a",
		},
		"ServiceEntry": {"ports: [{number: %s}]", "hosts: [%s]", "endpoints: [{ports: {a: %s}}]", "endpoints: [{weight: %s}]"},
		"VirtualService": {
			"http: [{match: [{headers: {a: {exact: %s}}}]}]", "http: [{match: [{uri: {exact: %s, prefix: b}}]}]", "http: [{timeout: %s}]",
			"http: [{fault: {abort: {percentage: {value: %s}}}}]", "http: [{corsPolicy: {allowCredentials: %s}}]", "hosts: [a]\nhosts: [%s]",
		},
	} {
		for _, field := range fields {
			if !strings.Contains(field, "%s") {
				field += "%s"
			}
			for _, v := range []string{
				"a", "abc", "e5", "a1", "'a'", `"a"`, `""`, "''", "", "~", "null", "NULL", "true", "True", "false", "'true'", "y", "on", "0", "-0", "+1",
				"1", "01", "007", "12345", "123456789", "1234567890", "4294967296", "-5", "1.5", ".5", "1e3", "1_000", "0x10", "0o7", "10.0.0.1", "::1",
				"10.0.0.0/8", ".inf", "-.inf", ".nan", "nan", "1s", "1h30m", "1.5s", "-1s", "5sec", "2026-01-01", "!!str 5", "!!int '5'", "!x a", "&b a", "*b",
				"[]", "[a]", "[1, ~]", "{}", "{a: b}", "{<<: {a: b}}", "{a: b, a: c}", "SIMPLE", "simple", "1.", "-", ".", "..", "+.", "|\n  a\n", "é", "\"\\xff\"",
			} {
				fastDecoderAgrees(t, object(kind, strings.Replace(field, "%s", v, 1)))
			}
		}
	}
}

// Documents that both ways can read get the same problems, including their lines: rules that need places find them.
func TestStraightFindsPlaces(t *testing.T) {
	data := object("VirtualService", "hosts:\n- a\nhttp:\n- route:\n  - destination:\n      host: a..b\n    weight: 0\n  - destination: {host: c}\n    weight: 100")
	if fastDecoderAgrees(t, data) != 1 {
		t.Fatal("it takes the long way")
	}
	_, problems := Decode("f", data)
	_, other := Decode("f", []byte(strings.Replace(string(data), "host: c", "host: !!str c", 1)))
	if diff := cmp.Diff(other, problems); len(problems) == 0 || diff != "" {
		t.Errorf("by the long way and by the short one (-long +short):\n%s", diff)
	}
}

// An object that the fast path gives up on is not left half read.
func TestStraightLeavesNothing(t *testing.T) {
	objects, problems := Decode("f", object("DestinationRule", "host: a\nsubsets: [{name: b, labels: {c: d}}, {name: !!str e}]"))
	if len(objects) != 1 || len(problems) > 0 {
		t.Fatal(problems)
	}
	want, _ := Decode("f", object("DestinationRule", "host: a\nsubsets: [{name: b, labels: {c: d}}, {name: e}]"))
	if !proto.Equal(objects[0].Spec.(proto.Message), want[0].Spec.(proto.Message)) {
		t.Errorf("it is %v", objects[0].Spec)
	}
}
