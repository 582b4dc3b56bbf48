package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	meshconfig "istio.io/api/mesh/v1alpha1"
	"istio.io/api/networking/v1beta1"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/node"
)

var (
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)
	imageType    = regexp.MustCompile(`^[A-Za-z0-9_.-]{0,127}$`) // a part of an image's tag
)

func proxyConfig(f field, c *v1beta1.ProxyConfig) {
	f.at("selector").at("matchLabels").labels(c.GetSelector().GetMatchLabels())
	f.at("concurrency").count(c.GetConcurrency().GetValue())
	proxyVariables(f.at("environmentVariables"), c.EnvironmentVariables)
	for name, value := range inOrder(c.EnvironmentVariables) {
		if len(value) > 2048 || strings.Contains(value, "\x00") {
			f.at("environmentVariables").key(name).errorf("has %d bytes, want at most 2048, without NUL", len(value))
		}
	}
	if image := c.GetImage().GetImageType(); !imageType.MatchString(image) {
		f.at("image").at("imageType").errorf("is %q, want default, debug, distroless or another end of an image's tag", image)
	}
}

// ProxyConfigFields returns a layer of a workload's ProxyConfig by the JSON names of its fields, without the variables
// that an injected sidecar has by itself.
func ProxyConfigFields(l model.ProxyConfigLayer) (map[string]any, error) {
	c := proto.CloneOf(l.Config)
	maps.DeleteFunc(c.ProxyMetadata, func(name, _ string) bool { return node.Reserved(name) })
	text, err := protojson.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.From, err)
	}
	var out map[string]any
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("%s: %w", l.From, err)
	}
	return out, nil
}

// ProxyConfigText returns the PROXY_CONFIG of a workload as one line of JSON. annotation is the text of its pod's
// proxy.istio.io/config, empty for none.
func ProxyConfigText(m *model.Mesh, namespace string, labels map[string]string, annotation string) (string, error) {
	own, err := decodeProxyConfig(annotation)
	if err != nil {
		return "", fmt.Errorf("annotation proxy.istio.io/config: %w", err)
	}
	text, err := protojson.Marshal(m.ProxyConfig(namespace, labels, own))
	if err != nil {
		return "", err
	}
	var line bytes.Buffer
	if err := json.Compact(&line, text); err != nil { // protojson's spaces differ between builds
		return "", err
	}
	return line.String(), nil
}

// decodeProxyConfig reads a ProxyConfig in the form of MeshConfig's defaultConfig.
func decodeProxyConfig(text string) (*meshconfig.ProxyConfig, error) {
	roots, fault := documents([]byte(text))
	switch {
	case fault != nil:
		return nil, fmt.Errorf("line %d: %s", fault.Line, fault.Message)
	case len(roots) == 0:
		return nil, nil
	case len(roots) > 1:
		return nil, fmt.Errorf("line %d: is a second document, want one", roots[1].Line)
	}
	around := &yaml.Node{Kind: yaml.MappingNode, Line: 1, Content: []*yaml.Node{
		{Kind: yaml.ScalarNode, Tag: "!!str", Value: "defaultConfig", Line: 1}, roots[0],
	}}
	spec := &meshconfig.MeshConfig{}
	problems, _ := new(report).body(kindFor("MeshConfig", meshConfig), envelope{spec: around, specLine: 1}, spec)
	for _, p := range problems {
		if p.Severity == Error {
			return nil, fmt.Errorf("line %d: %s: %s", p.Line, strings.TrimPrefix(p.Path, "spec.defaultConfig."), p.Message)
		}
	}
	return spec.DefaultConfig, nil
}

func proxyVariables(f field, variables map[string]string) {
	for name := range inOrder(variables) {
		at := f.key(name)
		if !variableName.MatchString(name) {
			at.errorf("the variable's name is %q, want letters, digits, '_', '-' and '.', no digit first", name)
		} else if node.Reserved(name) {
			at.warnf("is set by the injector, ignored for Pods that are injected")
		}
	}
}

// defaultConfig checks what injection takes from MeshConfig's defaultConfig: with a fault here no Pod could be created.
func defaultConfig(f field, c *meshconfig.ProxyConfig) {
	for name, address := range inOrder(map[string]string{
		//lint:ignore SA1019 it is still set
		"zipkinAddress": c.GetZipkinAddress(),
		//lint:ignore SA1019 it is still set
		"envoyMetricsServiceAddress": c.GetEnvoyMetricsServiceAddress(),
		"discoveryAddress":           c.GetDiscoveryAddress(), "statsdUdpAddress": c.GetStatsdUdpAddress(), "tracing.zipkin.address": c.GetTracing().GetZipkin().GetAddress(),
		"envoyMetricsService.address": c.GetEnvoyMetricsService().GetAddress(), "envoyAccessLogService.address": c.GetEnvoyAccessLogService().GetAddress(),
	}) {
		colon := strings.LastIndexByte(address, ':')
		port, err := strconv.ParseUint(address[colon+1:], 10, 16)
		if address != "" && (colon < 1 || err != nil || port == 0 || strings.ContainsAny(address, "$/ ")) {
			at := f
			for part := range strings.SplitSeq(name, ".") {
				at = at.at(part)
			}
			at.errorf("is %q, want host:port", address)
		}
	}
	for name, port := range inOrder(map[string]int32{"statusPort": c.GetStatusPort(), "proxyAdminPort": c.GetProxyAdminPort()}) {
		if port != 0 {
			f.at(name).port(uint32(port))
		}
	}
	if d := c.GetDrainDuration(); d != nil && (d.AsDuration() < time.Second || d.AsDuration() > time.Hour || d.AsDuration()%time.Second != 0) {
		f.at("drainDuration").errorf("is %v, want whole seconds, 1s to 1h", d.AsDuration())
	}
	if d := c.GetTerminationDrainDuration(); d != nil && (d.AsDuration() < 0 || d.AsDuration() > time.Hour) {
		f.at("terminationDrainDuration").errorf("is %v, want 0s to 1h", d.AsDuration())
	}
	f.at("concurrency").count(c.GetConcurrency().GetValue())
	proxyVariables(f.at("proxyMetadata"), c.GetProxyMetadata())
}
