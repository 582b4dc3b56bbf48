package watch

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// follow returns where the paths are, free of symbolic links on the way to them: each path, and where it leads if it
// is a link itself. One directory has one name then, which the system's watches need.
func follow(paths []string) []string {
	var out []string
	for _, p := range paths {
		out = append(out, filepath.Join(real(filepath.Dir(p)), filepath.Base(p)), real(p))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// real resolves the symbolic links of as much of path as exists.
func real(path string) string {
	for rest := ""; ; path = filepath.Dir(path) {
		if found, err := filepath.EvalSymlinks(path); err == nil {
			return filepath.Join(found, rest)
		}
		if path == filepath.Dir(path) {
			return filepath.Join(path, rest)
		}
		rest = filepath.Join(filepath.Base(path), rest)
	}
}

// directories returns what to watch for one path: itself if it is a directory, and the nearest directory above it that
// exists, where it is renamed, replaced or made anew.
func directories(path string) []string {
	var out []string
	if isDir(path) {
		out = append(out, path)
	}
	for parent := filepath.Dir(path); ; parent = filepath.Dir(parent) {
		if isDir(parent) {
			return append(out, parent)
		}
		if parent == filepath.Dir(parent) {
			return out
		}
	}
}

// isDir is false for a link to a directory: follow has named that as well.
func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// relevant reports whether an event at name may change what is read at one of the paths: the path itself, an entry of
// it, a directory on the way to it, or a ..data beside it, by which Kubernetes swaps all files of a volume at once.
func relevant(name string, paths []string) bool {
	return slices.ContainsFunc(paths, func(path string) bool {
		return name == path || filepath.Dir(name) == path || above(name, path) ||
			filepath.Dir(name) == filepath.Dir(path) && strings.HasPrefix(filepath.Base(name), "..")
	})
}

// above reports whether path is below the directory dir.
func above(dir, path string) bool {
	return strings.HasPrefix(path, strings.TrimSuffix(dir, string(filepath.Separator))+string(filepath.Separator))
}
