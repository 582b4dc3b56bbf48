package inject

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// DefaultTemplate is the template that is used where the ConfigMap has none.
//
//go:embed sidecar.yaml.tmpl
var DefaultTemplate string

// Config is the settings for all Pods: the key config of the ConfigMap, as YAML.
type Config struct {
	Image            string                      `json:"image"`
	ImageTypes       map[string]string           `json:"imageTypes,omitempty"` // images by image.imageType of ProxyConfig
	ImagePullPolicy  corev1.PullPolicy           `json:"imagePullPolicy,omitempty"`
	ImagePullSecrets []string                    `json:"imagePullSecrets,omitempty"`
	Resources        corev1.ResourceRequirements `json:"resources"`
	Revision         string                      `json:"revision"` // value of istio.io/rev: Pods and namespaces with another value are left to another injector

	DiscoveryAddress string `json:"discoveryAddress"`    // host:port; with a CAAddress that one if it is empty
	CAAddress        string `json:"caAddress,omitempty"` // host:port of the authority of the Pods' certificates, spoken to with a token of the Pod; empty for none
	TrustDomain      string `json:"trustDomain,omitempty"`
	// ClusterDomain is the DNS domain of the cluster's services. If it is empty, the caller decides, and New takes
	// cluster.local.
	ClusterDomain string `json:"clusterDomain,omitempty"`
	ClusterID     string `json:"clusterID"`
	Network       string `json:"network,omitempty"`
	LogLevel      string `json:"logLevel,omitempty"` // Envoy's

	// NativeSidecar selects an init container with restartPolicy Always as the sidecar. With nil the caller decides, by
	// the version of the cluster.
	NativeSidecar        *bool  `json:"nativeSidecar,omitempty"`
	RewriteProbes        bool   `json:"rewriteProbes"`
	MergeMetrics         bool   `json:"mergeMetrics"`
	HoldApplication      bool   `json:"holdApplicationUntilProxyStarts"`
	InterceptionMode     string `json:"interceptionMode"` // REDIRECT, TPROXY or NONE
	IncludeOutboundCIDRs string `json:"includeOutboundIPRanges"`
	ExcludeOutboundCIDRs string `json:"excludeOutboundIPRanges,omitempty"`
	IncludeInboundPorts  string `json:"includeInboundPorts"`
	ExcludeInboundPorts  string `json:"excludeInboundPorts,omitempty"`
	IncludeOutboundPorts string `json:"includeOutboundPorts,omitempty"`
	ExcludeOutboundPorts string `json:"excludeOutboundPorts,omitempty"`

	// ProxyConfig is Istio's ProxyConfig of every proxy: the lowest Layer, below MeshConfig's defaultConfig.
	ProxyConfig map[string]any `json:"proxyConfig,omitempty"`
}

const defaults = `
image: pilotlight/proxy
clusterID: Kubernetes
revision: default
rewriteProbes: true
mergeMetrics: true
interceptionMode: REDIRECT
includeOutboundIPRanges: "*"
includeInboundPorts: "*"
resources: {requests: {cpu: 25m, memory: 64Mi}, limits: {cpu: "2", memory: 1Gi}}
`

// plainAddress is where discovery serves without TLS.
const plainAddress = "istio-pilot.istio-system.svc:15010"

// ReadConfig reads the YAML of a Config, with defaults for missing keys. An unknown key is an error.
func ReadConfig(text string) (Config, error) {
	var c Config
	if err := yaml.UnmarshalStrict([]byte(defaults), &c); err != nil {
		return Config{}, err
	}
	given := c
	given.Resources = corev1.ResourceRequirements{}
	if err := yaml.UnmarshalStrict([]byte(text), &given); err != nil {
		return Config{}, fmt.Errorf("read config: %w", err)
	}
	if given.Resources.Requests == nil && given.Resources.Limits == nil {
		given.Resources = c.Resources
	}
	given.DiscoveryAddress = cmp.Or(given.DiscoveryAddress, given.CAAddress, plainAddress)
	return given, errors.Join(given.check(), given.tidy())
}

// tidy brings the lists for pod-init into its form. The error has all faults.
func (c *Config) tidy() error {
	var faults []error
	for _, list := range []struct {
		key   string
		value *string
		check func(string) (string, error)
	}{
		{"includeOutboundIPRanges", &c.IncludeOutboundCIDRs, allOr(areRanges)},
		{"excludeOutboundIPRanges", &c.ExcludeOutboundCIDRs, areRanges},
		{"includeInboundPorts", &c.IncludeInboundPorts, allOr(arePorts)},
		{"excludeInboundPorts", &c.ExcludeInboundPorts, arePorts},
		{"includeOutboundPorts", &c.IncludeOutboundPorts, arePorts},
		{"excludeOutboundPorts", &c.ExcludeOutboundPorts, arePorts},
	} {
		tidied, err := list.check(*list.value)
		if err != nil {
			faults = append(faults, fmt.Errorf("config: %s: %w", list.key, err))
		}
		*list.value = tidied
	}
	return errors.Join(faults...)
}

// isDomain returns an error for a text that is neither empty nor a DNS domain. Upper case and a dot at the end are allowed.
func isDomain(s string) error {
	if faults := validation.IsDNS1123Subdomain(strings.ToLower(strings.TrimSuffix(s, "."))); s != "" && len(faults) > 0 {
		return fmt.Errorf("is %.80q, want a DNS domain such as cluster.local", s)
	}
	return nil
}

// check returns all faults of the Config as one error.
func (c Config) check() error {
	var faults []error
	fault := func(key string, err error) {
		if err != nil {
			faults = append(faults, fmt.Errorf("config: %s: %w", key, err))
		}
	}
	for key, value := range map[string]string{"image": c.Image, "clusterID": c.ClusterID, "revision": c.Revision} {
		if value == "" {
			fault(key, errors.New("is empty"))
		}
	}
	fault("clusterDomain", isDomain(c.ClusterDomain))
	for _, kind := range slices.Sorted(maps.Keys(c.ImageTypes)) {
		fault("imageTypes."+kind, isImage(c.ImageTypes[kind]))
	}
	fault("discoveryAddress", isAddress(c.DiscoveryAddress))
	if c.CAAddress != "" {
		fault("caAddress", isAddress(c.CAAddress))
	}
	fault("interceptionMode", isMode(c.InterceptionMode))
	return errors.Join(faults...)
}
