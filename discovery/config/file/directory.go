package file

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/pilotlight/pilotlight/discovery/config"
)

// Directory changes a directory of objects, as a Source reads it. It is for one goroutine.
type Directory struct {
	dir    string
	places map[string][]place // by the keys of objects
}

// place is where an object lies.
type place struct {
	file   string
	line   int
	others int // objects, and documents that cannot be read, in that file
	object config.Written
}

// OpenDirectory reads an existing directory, with all below it.
func OpenDirectory(dir string) (*Directory, error) {
	if info, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("%s is a file, want a directory", dir)
	}
	files, err := Read(dir)
	if err != nil {
		return nil, err
	}
	d := &Directory{dir: dir, places: map[string][]place{}}
	for _, f := range files {
		if f.Err != nil {
			return nil, fmt.Errorf("read %s: %w", f.Name, f.Err)
		}
		d.add(f)
	}
	return d, nil
}

func (d *Directory) add(f File) {
	var all []config.Written
	for _, document := range config.Split(f.Data) {
		for _, w := range config.ReadWritten(document.Data, "default") {
			w.Item = w.At(f.Name, document.Line)
			all = append(all, w)
		}
	}
	for _, w := range all {
		if w.Key != "" {
			d.places[w.Key] = append(d.places[w.Key], place{f.Name, w.Line, len(all) - 1, w})
		}
	}
}

// Objects returns the objects of a kind, ordered by namespace and name; of one namespace, and one name, unless these are empty.
func (d *Directory) Objects(kind, namespace, name string) (out []config.Written) {
	for key, places := range d.places {
		m := metaOf(key)
		if m.Kind == kind && (namespace == "" || m.Namespace == namespace) && (name == "" || m.Name == name) {
			w := places[0].object
			w.Namespace, w.Revision = m.Namespace, revision(w.JSON)
			out = append(out, w)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Key < out[j].Key })
	return out
}

// only returns the place of an object that is alone in its file; an empty place if there is no such object.
func (d *Directory) only(key string) (place, error) {
	places := d.places[key]
	switch {
	case len(places) == 0:
		return place{}, nil
	case len(places) > 1:
		return place{}, fmt.Errorf("lies at %s:%d and at %s:%d: want it in one place", places[0].file, places[0].line, places[1].file, places[1].line)
	case places[0].others > 0:
		return place{}, fmt.Errorf("lies at %s:%d with others: edit it there, or give it a file of its own", places[0].file, places[0].line)
	}
	return places[0], nil
}

// Apply writes an object into the file in which it is alone, or else into a new file. verb is the result: created,
// configured or unchanged.
func (d *Directory) Apply(w config.Written) (verb, at string, err error) {
	found, err := d.only(w.Key)
	if err != nil {
		return "", "", err
	}
	verb, path := "configured", found.file
	if path == "" {
		m := metaOf(w.Key)
		verb, path = "created", filepath.Join(d.dir, strings.ToLower(m.Kind)+"."+m.Namespace+"."+m.Name+".yaml")
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return "", "", fmt.Errorf("%s is there, and does not have it: move that file away", path)
		}
	} else if bytes.Equal(found.object.JSON, w.JSON) {
		return "unchanged", revision(w.JSON), nil
	}
	var data []byte
	if filepath.Ext(path) == ".json" {
		var text bytes.Buffer
		err = json.Indent(&text, w.JSON, "", "  ")
		text.WriteByte('\n')
		data = text.Bytes()
	} else {
		data, err = config.YAML(w.JSON)
	}
	if err != nil {
		return "", "", err
	}
	if err := replace(path, data); err != nil {
		return "", "", err
	}
	d.places[w.Key] = []place{{path, 1, 0, w}}
	return verb, revision(w.JSON), nil
}

// Delete removes the file in which an object is alone.
func (d *Directory) Delete(key string) error {
	found, err := d.only(key)
	switch {
	case err != nil:
		return err
	case found.file == "":
		return config.ErrNotThere
	}
	if err := os.Remove(found.file); err != nil {
		return fmt.Errorf("remove the file: %w", err)
	}
	delete(d.places, key)
	return nil
}

// replace replaces a file atomically: a reader sees the old content or the new one. A link stays, and its target is
// replaced.
func replace(path string, data []byte) (err error) {
	mode := fs.FileMode(0o644)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".apply-*") // the store does not read files of this name
	if err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name()) // if it remains, the store does not read it
		}
	}()
	_, err = file.Write(data)
	for _, next := range []func() error{
		func() error { return file.Chmod(mode) }, file.Sync,
	} {
		if err == nil {
			err = next()
		}
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	if err = os.Rename(file.Name(), path); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return nil
}

// revision returns a hash of an object's content.
func revision(object []byte) string {
	sum := sha256.Sum256(object)
	return hex.EncodeToString(sum[:6])
}
