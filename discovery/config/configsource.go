package config

import (
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// ConfigSource is a further source of objects, as MeshConfig names it.
type ConfigSource struct {
	URL    string // as written
	Scheme string // xds, fs or k8s
	Place  string // host:port, a directory, or the text after k8s://
	TLS    *networking.ClientTLSSettings
}

// ConfigSources returns the sources that an object with a MeshConfig names, each address once; none for any other
// object.
func ConfigSources(o *model.Object) []ConfigSource {
	settings, _ := o.Spec.(*meshconfig.MeshConfig)
	var out []ConfigSource
	seen := map[string]bool{}
	for _, c := range settings.GetConfigSources() {
		if s, fault := parseConfigSource(c.GetAddress()); fault == "" && !seen[s.URL] {
			seen[s.URL] = true
			s.TLS = c.TlsSettings
			out = append(out, s)
		}
	}
	return out
}

// parseConfigSource returns the source of an address, or the fault of the address; "" for no fault.
func parseConfigSource(address string) (ConfigSource, string) {
	const want = "want xds://host:port, fs:///directory or k8s://"
	u, err := url.Parse(address)
	if err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return ConfigSource{}, want
	}
	s := ConfigSource{URL: address, Scheme: u.Scheme}
	switch u.Scheme {
	case "xds":
		if port, err := strconv.ParseUint(u.Port(), 10, 16); err != nil || port == 0 || u.Hostname() == "" || u.Path != "" {
			return s, "want xds://host:port"
		}
		s.Place = u.Host
	case "fs":
		if u.Host != "" || !filepath.IsAbs(u.Path) {
			return s, "want fs:///directory, with three slashes"
		}
		s.Place = filepath.Clean(u.Path)
	case "k8s":
		s.Place = strings.TrimPrefix(address, "k8s://")
	default:
		return s, want
	}
	return s, ""
}

func configSources(f field, sources []*meshconfig.ConfigSource) {
	seen := unique{}
	for i, c := range sources {
		at := f.item(i)
		s, fault := parseConfigSource(c.GetAddress())
		if fault != "" {
			at.at("address").errorf("is %q, %s", c.GetAddress(), fault)
			continue
		}
		seen.add(at.at("address"), c.GetAddress())
		tls := c.GetTlsSettings()
		if tls == nil {
			continue
		}
		t := at.at("tlsSettings")
		switch mode := tls.Mode; {
		case s.Scheme != "xds":
			t.warnf("is of %s, ignored: want it with xds://", s.URL)
		case mode == networking.ClientTLSSettings_MUTUAL && (tls.ClientCertificate == "" || tls.PrivateKey == ""):
			t.errorf("has mode MUTUAL, want the files clientCertificate and privateKey")
		case mode == networking.ClientTLSSettings_ISTIO_MUTUAL:
			t.at("mode").errorf("is ISTIO_MUTUAL, want DISABLE, SIMPLE, or MUTUAL with files")
		}
	}
}
