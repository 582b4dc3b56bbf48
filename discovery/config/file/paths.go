package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// NoObject says that a file or a directory that was named has nothing to read.
const NoObject = "no object, want Istio's in files named *.yaml, *.yml or *.json"

// Paths are what the commands that serve nothing read: files and directories of objects, "-" for standard input, and files of
// Istio's MeshConfig and MeshNetworks, "" for none.
type Paths struct {
	Objects                  []string
	MeshConfig, MeshNetworks string
}

// Read returns the objects of all paths as one configuration, those of the settings among them, and the problems of these files. It
// fails if a path is not there, or if there is no object in all of them.
func (p Paths) Read(stdin io.Reader) ([]*model.Object, []config.Problem, error) {
	r, err := p.ReadFiles(stdin)
	return r.Objects, r.Problems, err
}

// Contents are what Paths have.
type Contents struct {
	Objects  []*model.Object
	Problems []config.Problem // of the files, and of the paths
	Files    []File           // of Objects, as they were read
	Empty    []config.Problem // those of the problems that are about paths without files
}

// ReadFiles does the same as Read, and returns the files too.
func (p Paths) ReadFiles(stdin io.Reader) (Contents, error) {
	files, empty, err := readEach(p.Objects, stdin)
	if err != nil {
		return Contents{}, err
	}
	objects, problems := Check(files)
	if len(objects) == 0 && len(problems) == countPassed(files) && len(p.Objects) > 0 {
		faults := []error{fmt.Errorf("%s: %s", strings.Join(p.Objects, ", "), NoObject)}
		for _, p := range problems {
			faults = append(faults, fmt.Errorf("%s: %s", p.File, p.Message))
		}
		return Contents{}, errors.Join(faults...)
	}
	files = slices.DeleteFunc(files, func(f File) bool { return f.Passed != nil })
	out := Contents{Files: files}
	for _, path := range empty {
		out.Empty = append(out.Empty, config.Problem{File: path, Severity: config.Warning, Message: NoObject})
	}
	problems = append(problems, out.Empty...)
	for _, settings := range []struct{ kind, path string }{{"MeshConfig", p.MeshConfig}, {"MeshNetworks", p.MeshNetworks}} {
		if settings.path == "" {
			continue
		}
		o, found := ReadSettings(settings.kind, settings.path)
		if problems = append(problems, found...); o != nil {
			objects = append(objects, o)
		}
	}
	out.Objects, out.Problems = objects, WithConfigMaps(problems, files)
	return out, nil
}

// ReadEach reads every path as one configuration: of an object in two files the second is an error.
func ReadEach(paths []string, stdin io.Reader) ([]File, error) {
	files, _, err := readEach(paths, stdin)
	return files, err
}

// Stream reads every path as one stream of documents.
func Stream(paths []string, stdin io.Reader) ([]byte, error) {
	files, err := ReadEach(paths, stdin)
	faults := []error{err}
	var all [][]byte
	for _, f := range files {
		switch {
		case f.Passed != nil:
			continue
		case f.Err != nil:
			faults = append(faults, fmt.Errorf("%s: %w", f.Name, f.Err))
		}
		all = append(all, f.Data)
	}
	return bytes.Join(all, []byte("\n---\n")), errors.Join(faults...)
}

// readEach does that too, and returns the directories without files.
func readEach(paths []string, stdin io.Reader) (files []File, empty []string, err error) {
	var faults []error
	for _, path := range paths {
		if path == "-" {
			files = append(files, ReadAll("stdin", stdin))
			continue
		}
		found, err := Read(path)
		if files, faults = append(files, found...), append(faults, err); err == nil && len(found) == countPassed(found) {
			empty = append(empty, path)
		}
	}
	return files, empty, errors.Join(faults...)
}

// countPassed is how many of the files are passed over: each of them has one problem, and no object.
func countPassed(files []File) (n int) {
	for _, f := range files {
		if f.Passed != nil {
			n++
		}
	}
	return n
}

// WithConfigMaps adds the problems of ConfigMaps with settings of the mesh, which serve reads with --meshConfigMap, in the
// place of those that say that a ConfigMap is ignored. Only files with such a problem are read again.
func WithConfigMaps(problems []config.Problem, files []File) []config.Problem {
	ignored := func(p config.Problem) bool {
		return p.Severity == config.Warning && strings.HasPrefix(p.Message, "ConfigMap of v1 ")
	}
	has := map[string]bool{}
	for _, p := range problems {
		has[p.File] = has[p.File] || ignored(p)
	}
	for _, f := range files {
		if !has[f.Name] {
			continue
		}
		for _, found := range config.ConfigMaps(f.Name, f.Data) {
			problems = slices.DeleteFunc(problems, func(p config.Problem) bool { return p.File == f.Name && p.Line == found.Line && ignored(p) })
			problems = append(problems, found.Problems...)
		}
	}
	return problems
}
