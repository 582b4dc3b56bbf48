package validation

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/ingress"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/registry/manifest"
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

// understood are the objects of files as a store sends them, and what is wrong with Kubernetes' own.
type understood struct {
	groups   []model.Group
	problems []config.Problem
	left     []string // names of Services that Ingresses want, and that the files do not have
}

// understand makes groups of objects.
func (m Mesh) understand(objects []*model.Object) (out understood) {
	options := ingress.Options{Domain: m.Settings.Domain, Class: m.IngressClass, AnyClass: m.IngressClass == ""}
	fromFiles := ingresses{ingress.New(options)}
	manifests, rest, places := manifest.New(m.Settings.Domain, fromFiles), model.Group{}, map[string]model.Origin{}
	services := false
	for _, o := range objects {
		if config.IsManifest(o.Kind) {
			out.problems = append(out.problems, manifests.Put(o)...)
			places[o.Key()] = o.Origin
			services = services || o.Kind == "Service"
		} else {
			rest.Objects = append(rest.Objects, o)
		}
	}
	made, found := manifests.Changes()
	out.problems = append(out.problems, found...)
	for _, f := range fromFiles.faults() {
		if f.Missing && (!services || m.Elsewhere.has(isCluster)) {
			out.left = append(out.left, "services of Ingress "+f.Of.String())
			continue
		}
		out.problems = append(out.problems, ingressProblem(f))
	}
	out.groups = append(out.groups, rest)
	for _, key := range slices.Sorted(maps.Keys(made)) {
		g := made[key]
		out.groups = append(out.groups, g)
		at, known := places[key] // else Put has returned the problem
		for _, fault := range g.Faults {
			if known {
				out.problems = append(out.problems, config.Problem{
					File: at.File, Line: at.Line, Severity: config.Error, Object: key, Message: strings.TrimPrefix(fault, at.String()+": "),
				})
			}
		}
	}
	return out
}

// ingresses are the Ingresses of files.
type ingresses struct{ table *ingress.Table }

func (i ingresses) Apply(do func(*ingress.Store)) { do(i.table.Store("")) }
func (i ingresses) Synced()                       {}

// faults returns the faults of the Ingresses. Files hold no Secrets, so that all of these count as there.
func (i ingresses) faults() []ingress.Fault {
	i.table.Changes()
	secrets := map[ingress.Name]string{}
	for _, name := range i.table.Wanted() {
		secrets[name] = ""
	}
	i.table.SetSecrets(secrets)
	i.table.Changes()
	return i.table.Faults()
}

func ingressProblem(f ingress.Fault) config.Problem {
	p := config.Problem{File: f.Origin.File, Line: f.Line, Severity: config.Warning, Object: "Ingress " + f.Of.String(), Path: f.Path, Message: f.Text}
	if f.Refused {
		p.Severity = config.Error
	}
	return p
}

// Beside returns the problems that objects have together with those that are there, to which they may refer, and which
// they replace. Problems of the others are not theirs.
func (m Mesh) Beside(applied []config.Written, present []*model.Object) []config.Problem {
	theirs, ingresses := map[string]bool{}, map[string]bool{}
	for _, w := range applied {
		theirs[w.Key] = true
		ingresses[w.Title()] = w.Kind == "Ingress"
	}
	all := slices.DeleteFunc(slices.Clone(present), func(o *model.Object) bool { return theirs[o.Key()] })
	for _, w := range applied {
		all = append(all, w.Object)
	}
	understood := m.understand(all)
	problems := slices.DeleteFunc(understood.problems, func(p config.Problem) bool { return !ingresses[p.Object] })
	notes := model.NewOf(m.Settings, slices.Values(understood.groups)).Notes()
	notes = slices.DeleteFunc(notes, func(n model.Note) bool { return !theirs[n.Meta.Key()] })
	return append(problems, config.OfNotes(notes)...)
}

// WithoutManifests leaves out Kubernetes' own objects, which only a directory takes, and says so of each.
func WithoutManifests(objects []config.Written) (rest []config.Written, problems []config.Problem) {
	for _, w := range objects {
		if !config.IsManifest(w.Kind) {
			rest = append(rest, w)
			continue
		}
		problems = append(problems, config.Problem{
			File: w.Object.Origin.File, Line: w.Line, Severity: config.Warning, Object: w.Title(), Message: "is Kubernetes' own, not written: kubectl apply writes it",
		})
	}
	return rest, problems
}
