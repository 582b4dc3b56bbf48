package setting

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/hashicorp/go-multierror"

	"github.com/pilotlight/pilotlight/internal/spelling"
)

// Setting is one line of a table.
type Setting struct {
	Name     string   // of the flag and of the file's key: "statusPort"
	Also     []string // variables of other programs that set it too, with less precedence than its own: "INSTANCE_IP"
	Group    string   // its heading
	Default  string   // parsed like any other text; it may be empty even if no empty value may be given
	Required bool     // it has no default, and must be given
	Help     string   // a description, without a full stop
	Kind     Kind
}

// Table lists all settings of a program.
type Table struct {
	Prefix   string // of the variables: "PILOTLIGHT_"
	Settings []Setting
}

// Given is a name with the text given for it.
type Given struct{ Name, Text string }

// Sources are the inputs of a program.
type Sources struct {
	Flags  []Given           // in their order: if one is repeated, the last one counts
	Env    map[string]string // the whole environment
	File   []byte            // YAML, a mapping of names to values; nil for none
	FileAt string            // the file's name, for messages
}

// Variable returns the environment variable of a setting: statsdUdpAddress is PILOTLIGHT_STATSD_UDP_ADDRESS.
func (t Table) Variable(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		if r == '-' {
			r = '_'
		}
		b.WriteRune(unicode.ToUpper(r))
	}
	return t.Prefix + b.String()
}

// Resolve stores each setting's value in its variable, and returns all faults, one error each.
func (t Table) Resolve(s Sources) (Origins, *multierror.Error) {
	var faults *multierror.Error
	origins := Origins{}
	entries, fault := t.entries(s)
	faults = multierror.Append(faults, fault...)
	faults = multierror.Append(faults, t.misspelt(s.Env)...)
	for _, setting := range t.Settings {
		text, origin := t.find(setting, s, entries)
		origins[setting.Name] = origin
		if err := setting.Kind.parse(text); err != nil && (origin.Set() || text != "") {
			faults = multierror.Append(faults, setting.fault(origin, text))
		}
	}
	return origins, faults
}

// find returns the text that takes precedence of all that were given. An empty variable counts as one that is not set:
// a pod template has no other way to leave it out.
func (t Table) find(setting Setting, s Sources, entries []entry) (string, Origin) {
	named := func(g Given) bool { return g.Name == setting.Name }
	for _, given := range slices.Backward(s.Flags) {
		if named(given) {
			return given.Text, Origin{"--" + given.Name, Flag}
		}
	}
	for _, name := range append([]string{t.Variable(setting.Name)}, setting.Also...) {
		if text := s.Env[name]; text != "" {
			return text, Origin{name, Variable}
		}
	}
	for _, e := range entries {
		if named(e.Given) {
			return e.Text, Origin{fmt.Sprintf("%s:%d: %s", s.FileAt, e.line, e.Name), File}
		}
	}
	return setting.Default, Origin{"--" + setting.Name, Default}
}

// misspelt finds the variables that look like a misspelt setting. Other variables may have the prefix too: Kubernetes
// sets variables after the names of services.
func (t Table) misspelt(env map[string]string) []error {
	var known []string
	for _, s := range t.Settings {
		known = append(known, t.Variable(s.Name))
	}
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(env)) {
		text := env[name]
		rest, ours := strings.CutPrefix(name, t.Prefix)
		if !ours || text == "" || slices.Contains(known, name) {
			continue
		}
		if near := nearestRest(rest, t.Prefix, known); near != "" {
			faults = append(faults, fmt.Errorf("%s: no such variable, did you mean %s?", name, near))
		}
	}
	return faults
}

// nearestRest compares the texts after the prefix, which all names share.
func nearestRest(rest, prefix string, known []string) string {
	rests := make([]string, len(known))
	for i, k := range known {
		rests[i] = strings.TrimPrefix(k, prefix)
	}
	if near := spelling.Nearest(rest, rests); near != "" {
		return prefix + near
	}
	return ""
}

// Names lists the settings in their order.
func (t Table) Names() []string {
	names := make([]string, len(t.Settings))
	for i, s := range t.Settings {
		names[i] = s.Name
	}
	return names
}

// Unknown returns the error for a name of no setting, with the name that was probably meant. mark is the text that the
// source has before a name.
func (t Table) Unknown(at, mark, name string) error {
	message := at + mark + name + ": no such setting"
	if near := spelling.Nearest(name, t.Names()); near != "" {
		message += ", did you mean " + mark + near + "?"
	}
	return errors.New(message)
}
