package config

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
)

const group = "networking.istio.io"

// kind is one kind of object that discovery serves.
type kind struct {
	spec   func() proto.Message // an empty one
	rules  func(field, proto.Message)
	served served
}

// kindOf returns a kind; false where it is not served.
func kindOf(apiVersion, name string) (kind, bool) {
	in, version, _ := strings.Cut(apiVersion, "/")
	if in != group || !slices.Contains([]string{"v1", "v1beta1", "v1alpha3"}, version) {
		return kind{}, false
	}
	switch name {
	case "DestinationRule":
		return kindFor(destinationRule, destinationRuleServed()), true
	case "ServiceEntry":
		return kindFor(serviceEntry, serviceEntryServed()), true
	case "Sidecar":
		return kindFor(sidecar, sidecarServed()), true
	case "VirtualService":
		return kindFor(virtualService, virtualServiceServed()), true
	default:
		return kind{}, false
	}
}

func kindNames() []string {
	return []string{"DestinationRule", "ServiceEntry", "Sidecar", "VirtualService"}
}

func kindFor[M proto.Message](rules func(field, M), served served) kind {
	var spec M
	return kind{
		spec:   func() proto.Message { return spec.ProtoReflect().New().Interface() },
		rules:  func(f field, m proto.Message) { rules(f, m.(M)) },
		served: served,
	}
}
