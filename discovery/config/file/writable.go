package file

import (
	"fmt"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// Writable returns the objects of files as they are written, in their order, and the problems of all. Objects without a
// namespace get the given one. An object with an error, and the second of a name, are problems only.
func Writable(files []File, namespace string) (objects []config.Written, problems []config.Problem) {
	first := map[string]*model.Object{}
	for _, f := range files {
		if f.Err != nil {
			problems = append(problems, config.Problem{File: f.Name, Severity: config.Error, Message: f.Err.Error()})
		}
		for _, d := range config.Split(f.Data) {
			for _, w := range config.ReadWritten(d.Data, namespace) {
				w.Item = w.At(f.Name, d.Line)
				problems = append(problems, w.Problems...)
				twin := first[w.Key]
				switch {
				case w.Object == nil: // a problem is an error, or a warning that the object is of another kind
				case twin != nil:
					problems = append(problems, config.Duplicate(w.Object, twin))
				default:
					first[w.Key] = w.Object
					objects = append(objects, w)
				}
			}
		}
	}
	return objects, problems
}

// Named returns the objects of files by their kinds and names alone, whatever errors they have. Objects without a namespace get
// the given one. left are the places of those that are not of a kind that is served, or whose name cannot be read.
func Named(files []File, namespace string) (objects []config.Written, left []string, err error) {
	for _, f := range files {
		if f.Err != nil {
			return objects, left, fmt.Errorf("read %s: %w", f.Name, f.Err)
		}
		for _, d := range config.Split(f.Data) {
			for _, w := range config.ReadWritten(d.Data, namespace) {
				if w.Key == "" || w.Name == "" {
					left = append(left, fmt.Sprintf("%s:%d", f.Name, d.Line+w.Line-1))
					continue
				}
				objects = append(objects, w)
			}
		}
	}
	return objects, left, nil
}
