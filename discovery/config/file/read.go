package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Read returns the configuration files of a directory by name, or the one file that path is. A file that cannot be read
// is among them with its error; an error of Read itself says that nothing is known.
func Read(path string) ([]File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	if !info.IsDir() {
		return []File{read(path)}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	var files []File
	for _, e := range entries {
		if !named(e.Name()) {
			continue
		}
		f := read(filepath.Join(path, e.Name()))
		if errors.Is(f.Err, errDirectory) || gone(f) {
			continue
		}
		files = append(files, f)
	}
	return files, nil
}

// named reports whether a file's name is one of configuration. Editors' and Kubernetes' own begin with a dot.
func named(name string) bool {
	return !strings.HasPrefix(name, ".") && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name))
}

var errDirectory = errors.New("is a directory")

func read(name string) File {
	f := File{Name: name}
	info, err := os.Stat(name)
	switch {
	case err != nil:
		f.Err = reason(err)
	case info.IsDir():
		f.Err = errDirectory
	case !info.Mode().IsRegular():
		f.Err = fmt.Errorf("is a %s, want a file", info.Mode().Type()) // reading a pipe would not end
	default:
		f.Data, err = os.ReadFile(name)
		f.Err = reason(err)
	}
	return f
}

// gone holds for a file that was deleted since the directory was listed, not for a link that leads nowhere.
func gone(f File) bool {
	if !errors.Is(f.Err, fs.ErrNotExist) {
		return false
	}
	_, err := os.Lstat(f.Name)
	return errors.Is(err, fs.ErrNotExist)
}

// reason drops the path that problems show anyway.
func reason(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}
