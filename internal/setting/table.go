package setting

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/go-multierror"
	"go.yaml.in/yaml/v3"

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

type entry struct {
	Given
	line int
}

// entries reads the file: each known key with its value as text, and the faults, by line.
func (t Table) entries(s Sources) (entries []entry, faults []error) {
	root, err := mapping(s.File)
	if err != nil {
		return nil, []error{fmt.Errorf("%s: %w", s.FileAt, err)}
	}
	kinds := map[string]Kind{}
	for _, setting := range t.Settings {
		kinds[setting.Name] = setting.Kind
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(root); i += 2 {
		key, value := root[i], root[i+1]
		at := fmt.Sprintf("%s:%d: ", s.FileAt, key.Line)
		kind, known := kinds[key.Value]
		text, ok := textOf(value, kind.separator())
		switch before, again := lines[key.Value]; {
		case !known:
			faults = append(faults, t.Unknown(at, "", key.Value))
		case again:
			faults = append(faults, fmt.Errorf("%s%s: given twice, first in line %d", at, key.Value, before))
		case value.Tag == "!!null": // like a missing key
		case !ok:
			faults = append(faults, fmt.Errorf("%s%s: want a value, a list of values or a mapping of names to values", at, key.Value))
		default:
			entries = append(entries, entry{Given{key.Value, text}, key.Line})
		}
		lines[key.Value] = key.Line
	}
	return entries, faults
}

// mapping returns the keys and values of a document, in turns.
func mapping(data []byte) ([]*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, more yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, nil // empty, or comments only
	case err != nil:
		return nil, err
	case decoder.Decode(&more) == nil:
		return nil, fmt.Errorf("line %d: a second document: want one", more.Line)
	}
	root := document.Content[0]
	switch {
	case root.Kind == yaml.MappingNode:
		return root.Content, nil
	case root.Kind == yaml.ScalarNode && root.Tag == "!!null":
		return nil, nil
	}
	return nil, fmt.Errorf("line %d: want a mapping of settings to values, such as statusPort: 15020", root.Line)
}

// textOf returns a value in the form of a flag: a list with separators, a mapping as key=value.
func textOf(value *yaml.Node, separator string) (string, bool) {
	var parts []string
	switch value.Kind {
	case yaml.ScalarNode:
		return value.Value, true
	case yaml.SequenceNode:
		for _, item := range value.Content {
			if item.Kind != yaml.ScalarNode {
				return "", false
			}
			parts = append(parts, item.Value)
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(value.Content); i += 2 {
			if value.Content[i+1].Kind != yaml.ScalarNode {
				return "", false
			}
			parts = append(parts, value.Content[i].Value+"="+value.Content[i+1].Value)
		}
	default: // an alias
		return "", false
	}
	return strings.Join(parts, separator), true
}

// Source is one of the places that a value can come from.
type Source string

// The sources, in the order of their precedence.
const (
	Flag     Source = "flag"
	Variable Source = "variable"
	File     Source = "file"
	Default  Source = "default"
)

// Origin is the origin of a value.
type Origin struct {
	Name   string // as in the source: "--statusPort", "PILOTLIGHT_STATUS_PORT", "agent.yaml:7: statusPort"
	Source Source
}

// Set reports whether the value was given.
func (o Origin) Set() bool { return o.Source != Default && o.Source != "" }

// Origins are the origins of the settings, by name.
type Origins map[string]Origin

// Fault returns the error for a value that its Kind allows and that is wrong for another reason. It has the form of all
// other faults.
func (o Origins) Fault(name string, value any, want string) error {
	at := o[name].Name
	if at == "" {
		at = "--" + name
	}
	return fmt.Errorf("%s %v: want %s", at, value, want)
}

func (s Setting) fault(o Origin, text string) error {
	if text == "" {
		text = `""`
	} else if strconv.Quote(text) != `"`+text+`"` {
		text = strconv.Quote(text)
	}
	message := o.Name + " " + text + ": want " + s.Kind.Allowed
	if s.Kind.Example != "" {
		message += ", such as " + s.Kind.Example
	}
	return errors.New(message)
}

// Effective writes a line for each setting: its value and where the value came from.
func (t Table) Effective(w io.Writer, origins Origins) error {
	var rows [][]string
	for _, s := range t.Settings {
		from := string(Default)
		if o := origins[s.Name]; o.Set() {
			from = string(o.Source) + " " + o.Name
		} else if o.Source == "" && o.Name != "" {
			from = o.Name // the value was computed
		}
		rows = append(rows, []string{s.Name, orEmpty(masked(s.Kind.show())), from})
	}
	return WriteColumns(w, 2, rows)
}

// masked replaces the passwords of URLs, as net/url's Redacted does.
func masked(value string) string {
	return regexp.MustCompile(`(://[^/?#,\s@:]*):[^/?#,\s]*@`).ReplaceAllString(value, "$1:xxxxx@")
}

func orEmpty(value string) string {
	if value == "" {
		return `""`
	}
	return value
}

// Derive sets a setting that was not given to a computed value, and records how it was computed. A value that was given
// stays. The setting must allow the value.
func (t Table) Derive(o Origins, name, value, how string) error {
	if o[name].Set() {
		return nil
	}
	for _, s := range t.Settings {
		if s.Name != name {
			continue
		}
		if err := s.Kind.parse(value); err != nil {
			return s.fault(Origin{Name: how}, value)
		}
		o[name] = Origin{Name: how}
		return nil
	}
	return fmt.Errorf("no setting is called %s", name)
}

// WriteColumns writes a line for each row, with cells that are aligned and gap blanks or more apart. Package text/tabwriter would add
// 15 KB to a program.
func WriteColumns(w io.Writer, gap int, rows [][]string) error {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if i < len(row)-1 {
				widths[i] = max(widths[i], utf8.RuneCountInString(cell))
			}
		}
	}
	var out strings.Builder
	for _, row := range rows {
		for i, cell := range row {
			out.WriteString(cell)
			if i < len(row)-1 {
				out.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+gap))
			}
		}
		out.WriteByte('\n')
	}
	_, err := io.WriteString(w, out.String())
	return err
}
