package explain

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Text returns the road in lines, its end last. Parts of them are the choice of tenants, as an endpoint's locality is: none leaves its line.
func (r Road) Text() string {
	var b strings.Builder
	line := func(kind, format string, args ...any) {
		b.WriteString(model.OneLine(strings.TrimRight(fmt.Sprintf("%-13s %s", kind, fmt.Sprintf(format, args...)), " ")) + "\n")
	}
	line("from", "%s", r.title())
	line("to", "%s at %s", r.To, r.At)
	step := func(s Step) {
		for _, p := range s.Passed {
			line("not "+s.Kind, "%s: %s%s", p.Name, p.Reason, by(p.Origins))
		}
		text := s.Text
		if s.Name != "" && text != "" {
			text = ": " + text
		}
		from := by(s.Origins)
		if s.More > 0 {
			from = fmt.Sprintf("%s; %d more]", strings.TrimSuffix(from, "]"), s.More)
		}
		if s.Unmade != "" && s.Unmade != notThere { // the text says that one
			from = " [no object: " + s.Unmade + "]"
		}
		line(s.Kind, "%s%s%s", s.Name, text, from)
	}
	atServer := func(s Step) bool { return strings.HasPrefix(s.Kind, "server") }
	for _, s := range r.Steps {
		if !atServer(s) {
			step(s)
		}
	}
	for _, o := range r.Outcomes {
		for _, e := range o.Endpoints {
			where := ""
			if e.Locality != "" {
				where = " in " + e.Locality
			}
			line("endpoint", "%s: %s%s, priority %d, %s%s", e.Address, e.Health, where, e.Priority, e.TLS, by(e.Origins))
		}
	}
	for _, s := range r.Steps {
		if atServer(s) {
			step(s)
		}
	}
	for _, o := range r.Outcomes {
		text := o.text()
		if len(o.Unless) > 0 {
			text += "; unless it is refused by " + strings.Join(o.Unless, ", ")
		}
		line("outcome", "%s", text)
	}
	return b.String()
}

// text says an outcome in a line.
func (o Outcome) text() string {
	out := ""
	if o.Share < 1 {
		out = percent(o.Share) + ": "
	}
	if o.Status != 0 {
		out += fmt.Sprint(o.Status)
		if o.GRPC != "" {
			out += " with grpc-status " + o.GRPC
		}
		out += " from " + cmp.Or(o.By, "the proxy")
		if o.Flag != "" {
			out += " (" + o.Flag + ")"
		}
		return out + ": " + o.Reason
	}
	out += o.Reason
	if o.Cluster != "" {
		out += ", of " + o.Cluster
	}
	if o.Path != "" {
		out += fmt.Sprintf("; it gets %s of %s", o.Path, o.Host)
	}
	return out
}

// by says where the objects are that made a part.
func by(places []Place) string {
	var out []string
	for _, p := range places {
		text := p.Object
		if p.Path != "" {
			text += " " + p.Path
		}
		if p.At != "" {
			text += " at " + p.At
		}
		out = append(out, text)
	}
	if len(out) == 0 {
		return ""
	}
	return " [" + strings.Join(out, "; ") + "]"
}
