package main

import (
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/discovery/ads"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/plane"
	"github.com/pilotlight/pilotlight/discovery/registry/consul"
	"github.com/pilotlight/pilotlight/discovery/registry/eureka"
	"github.com/pilotlight/pilotlight/internal/setting"
)

// settings are the settings of the command serve, by pilot-discovery's names.
type settings struct {
	configDir      string
	registries     []string
	optional       []string     // names of sources
	domain         model.Domain // of the cluster's services
	loopback       bool         // the whole mesh is on one machine
	consul         consul.Config
	eureka         eureka.Config
	domains        plane.Domains // whose hosts registries may give
	cloudFoundry   cloudFoundry
	cluster        cluster
	webhooks       webhooks
	ingress        ingressSettings
	gatewaySecrets []string // NAMESPACE/ACCOUNT of gateways
	meshConfig     string   // file, empty for Istio's defaults
	networksConfig string   // file, empty for one network
	wipeDelay      time.Duration
	syncTimeout    time.Duration // 0 for none

	grpcAddr       string
	secureGRPCAddr string // used with certificates only
	httpAddr       string
	monitoringAddr string
	exposeDebug    bool

	certificates ads.Certificates
	secretsDir   string // empty for none

	after, max time.Duration
	limits     ads.Limits
	streams    int // ads.Limits has another type

	otlpEndpoint        string // base URL of a collector; empty for that of the environment
	logLevel, logFormat string

	origins setting.Origins
}

// given holds the command line of a command that has all settings.
type given struct {
	flags setting.Flags
	file  string
}

// register adds the flags of every setting to a command.
func (g *given) register(cmd *cobra.Command) {
	table := newSettings().table()
	g.flags.Register(cmd.Flags(), table)
	cmd.Flags().StringVar(&g.file, "config", "", "YAML file of settings, by the names of the flags")
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return table.Explain(err) })
}

// settings resolves flags, environment and file. It reports all faults together.
func (g *given) settings(env map[string]string) (*settings, error) {
	s := newSettings()
	sources := setting.Sources{Flags: g.flags.Given, Env: env, FileAt: g.file}
	if sources.FileAt == "" {
		sources.FileAt = env["PILOTLIGHT_CONFIG"]
	}
	var faults []error
	if sources.FileAt != "" {
		data, err := os.ReadFile(sources.FileAt)
		sources.File, faults = data, append(faults, err)
	}
	origins, wrong := s.table().Resolve(sources)
	s.origins = origins
	faults = append(append(faults, wrong.WrappedErrors()...), s.registryFaults()...)
	s.limits.StreamsPerConnection = uint32(s.streams)
	return s, setting.Usage("discovery", append(faults, s.contradictions()...)...)
}

// contradictions returns the faults of values that are allowed one by one, but not together.
func (s *settings) contradictions() (faults []error) {
	fault := func(name string, value any, want string) { faults = append(faults, s.origins.Fault(name, value, want)) }
	if s.after > s.max {
		fault("debounceAfter", s.after, fmt.Sprintf("at most %s, which is %s", s.origins["debounceMax"].Name, s.max))
	}
	if (s.consul.ClientCert == "") != (s.consul.ClientKey == "") {
		fault("consulClientCertFile", s.consul.ClientCert, "--consulClientCertFile and --consulClientKeyFile together, or none of them")
	}
	for _, server := range s.eureka.URLs {
		if u, err := url.Parse(server); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			fault("eurekaserverURL", server, "URLs such as http://host:8761/eureka, parted by commas")
		}
	}
	for _, wrong := range s.domains.Faults(s.domain) {
		fault(wrong.Setting, wrong.Found, wrong.Want)
	}
	faults = append(faults, s.webhookFaults()...)
	wrong := s.cloudFoundry.faults()
	for _, name := range slices.Sorted(maps.Keys(wrong)) {
		fault(name, wrong[name].found, wrong[name].want)
	}
	if s.secure() {
		for _, file := range []struct{ name, path string }{
			{"tlsCertFile", s.certificates.Cert}, {"tlsKeyFile", s.certificates.Key}, {"caCertFile", s.certificates.CA},
		} {
			if file.path == "" {
				fault(file.name, `""`, "a path: --tlsCertFile, --tlsKeyFile and --caCertFile are used together, or none of them")
			}
		}
	}
	return faults
}

func (s *settings) secure() bool { return s.certificates != ads.Certificates{} }
