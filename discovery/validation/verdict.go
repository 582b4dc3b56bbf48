package validation

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// Mesh is what is known of the mesh beside the objects of files.
type Mesh struct {
	Settings     model.Settings
	IngressClass string     // of the Ingresses that are served; empty to judge those of every class
	Elsewhere    Registries // that have services which the files do not have
}

// Verdict is what is found.
type Verdict struct {
	Objects   int              `json:"objects"`  // that would be served
	Problems  []config.Problem `json:"problems"` // never nil
	NotJudged []string         `json:"notJudged,omitempty"`
	Live      *Compared        `json:"live,omitempty"` // nil if no running discovery was asked

	reason string // for NotJudged
}

// Judge judges objects. found are the problems of files of which there are no objects, or of some of these.
func (m Mesh) Judge(objects []*model.Object, found []config.Problem) Verdict {
	v := Verdict{Objects: len(objects), Problems: append([]config.Problem{}, found...)}
	all := m.understand(objects)
	v.Problems = append(v.Problems, all.problems...)
	mesh := m.of(all)
	var counted []model.Note
	for _, n := range mesh.Notes() {
		if name := m.Elsewhere.missing(n, mesh); name != "" {
			v.NotJudged = append(v.NotJudged, name)
		} else {
			counted = append(counted, n)
		}
	}
	v.Problems = append(v.Problems, config.OfNotes(counted)...)
	v.NotJudged = append(v.NotJudged, all.left...)
	if len(mesh.Services()) == 0 && slices.ContainsFunc(objects, names) {
		v.NotJudged = append(v.NotJudged, "hosts, ports and subsets")
	}
	v.reason = "the files have no service"
	if len(m.Elsewhere) > 0 {
		v.reason = strings.Join(m.Elsewhere.Names(), ", ") + " may have them"
	}
	slices.Sort(v.NotJudged)
	v.NotJudged = slices.Compact(v.NotJudged)
	return v
}

// Of returns the mesh that serve would have of objects, without saying what is wrong with them.
func (m Mesh) Of(objects []*model.Object) *model.Mesh { return m.of(m.understand(objects)) }

func (m Mesh) of(all understood) *model.Mesh {
	return model.NewOf(m.Settings, slices.Values(all.groups))
}

// names reports whether an object names hosts of services.
func names(o *model.Object) bool {
	return slices.Contains([]string{"VirtualService", "DestinationRule", "Sidecar"}, o.Kind)
}

// Text returns a line for each problem.
func (v Verdict) Text() string {
	var b strings.Builder
	for _, p := range v.Problems {
		fmt.Fprintln(&b, p)
	}
	return b.String()
}

// Bad reports whether there is an error, or, if it is strict, any problem.
func (v Verdict) Bad(strict bool) bool {
	return config.HasErrors(v.Problems) || strict && len(v.Problems) > 0
}

// Summary counts the problems in a line.
func (v Verdict) Summary() string {
	count := map[config.Severity]int{}
	for _, p := range v.Problems {
		count[p.Severity]++
	}
	return fmt.Sprintf("objects: %d, errors: %d, warnings: %d%s", v.Objects, count[config.Error], count[config.Warning], v.Live.text())
}

// mostNamed is how many names Rest repeats.
const mostNamed = 10

// Rest names in a line what was not judged, and why; "" if that is nothing.
func (v Verdict) Rest() string {
	if len(v.NotJudged) == 0 {
		return ""
	}
	named := v.NotJudged[:min(len(v.NotJudged), mostNamed)]
	rest := ""
	if more := len(v.NotJudged) - len(named); more > 0 {
		rest = fmt.Sprintf(" and %d more", more)
	}
	return model.OneLine(fmt.Sprintf("not judged, for %s: %s%s", v.reason, strings.Join(named, ", "), rest))
}

// MaxSent is the largest size in bytes of what is sent to a running discovery; base64 makes a file a third longer.
const MaxSent = 8 << 20

// Text is one file as it is sent to a running discovery.
type Text struct {
	Name  string `json:"name"`
	Data  []byte `json:"data,omitempty"`
	Error string `json:"error,omitempty"` // why there is no Data
}

// Sent returns files as they are sent. It fails if they are too large.
func Sent(files []Text) ([]byte, error) {
	text, err := json.Marshal(files)
	if err == nil && len(text) > MaxSent {
		err = fmt.Errorf("the files have %d bytes as they are sent, want %d at most: validate a part of them", len(text), MaxSent)
	}
	return text, err
}

// Received reads files that were sent.
func Received(text []byte) (files []Text, err error) {
	if err := json.Unmarshal(text, &files); err != nil {
		return nil, fmt.Errorf("read files: %w, want a list of name and data", err)
	}
	return files, nil
}

// ReadLive reads the verdict of a running discovery.
func ReadLive(text []byte) (v Verdict, err error) {
	if err = json.Unmarshal(text, &v); err == nil && (v.Live == nil || v.Problems == nil) {
		err = errors.New("there is no verdict in it")
	}
	if err != nil {
		return Verdict{}, fmt.Errorf("read the verdict: %w; is it a discovery of this version?", err)
	}
	v.reason = ofLive
	return v, nil
}
