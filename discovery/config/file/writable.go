package file

import (
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
