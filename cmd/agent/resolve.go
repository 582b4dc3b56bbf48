package main

import (
	"fmt"
	"io"
	"maps"

	"github.com/hashicorp/go-multierror"

	"github.com/pilotlight/pilotlight/agent/identity"
	"github.com/pilotlight/pilotlight/internal/setting"
)

// resolve stores the given settings, or returns all their faults.
func (s *settings) resolve(sources setting.Sources) []error {
	var faults *multierror.Error
	s.origins, faults = s.table().Resolve(sources)
	if path := sources.Env[bootstrapVariable]; path != "" {
		s.templateFile, s.origins["templateFile"] = path, setting.Origin{Name: bootstrapVariable, Source: setting.Variable}
	}
	s.enrol()
	return append(faults.WrappedErrors(), s.contradictions()...)
}

// contradictions returns the faults of values that are allowed one by one, but not together.
func (s *settings) contradictions() (faults []error) {
	fault := func(name string, value any, want string) { faults = append(faults, s.origins.Fault(name, value, want)) }
	if s.parentShutdownDuration <= s.drainDuration {
		more := fmt.Sprintf("more than %s %s", s.origins["drainDuration"].Name, s.drainDuration)
		fault("parentShutdownDuration", s.parentShutdownDuration, more)
	}
	if s.caAddress == "" && (s.caRoots != "" || s.caToken != "") {
		fault("caAddress", `""`, "an address beside --caRoots and --caToken")
	}
	if s.caAddress != "" && s.caRoots == "" {
		fault("caRoots", `""`, "the roots of the authority at --caAddress")
	}
	alone := "none beside " + s.origins["customConfigFile"].Name + ", which is used as it is"
	if s.customConfigFile != "" && s.templateFile != "" {
		fault("templateFile", s.templateFile, alone)
	}
	if s.customConfigFile != "" && s.bootstrapOverride != "" {
		fault("bootstrapOverride", s.bootstrapOverride, alone)
	}
	if s.lastGood.config().On && s.xdsVariant == xdsSotW && s.origins["lastGood"].Set() {
		fault("lastGood", s.lastGood, "off beside "+s.origins["xdsVariant"].Name+" "+xdsSotW+": only delta tells which resources Envoy accepts")
	}
	for _, port := range []struct {
		name  string
		value int
		to    string
		leads int
	}{
		{"envoyPrometheusPort", s.envoyPrometheusPort, "proxyAdminPort", s.proxyAdminPort},
		{"envoyStatusPort", s.envoyStatusPort, "statusPort", s.statusPort},
	} {
		if port.value != 0 && port.leads == 0 {
			fault(port.name, port.value, "0 while --"+port.to+" is 0: that is where it leads")
		}
	}
	return faults
}

// print writes each setting and where it came from, with the computed values of those that were not given. It does not
// change the settings.
func (s *settings) print(w io.Writer, derived []identity.Derived) error {
	all := *s
	all.origins = maps.Clone(s.origins)
	table := all.table()
	for _, d := range derived {
		if err := table.Derive(all.origins, d.Setting, d.Value, d.How); err != nil {
			return err
		}
	}
	return table.Effective(w, all.origins)
}
