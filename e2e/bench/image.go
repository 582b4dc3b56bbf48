package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// printImages writes a row for each image that make image has left, and what is in that of the proxy.
func printImages(out io.Writer) {
	root, err := lab.Root()
	if err != nil {
		return
	}
	dir := filepath.Join(root, "run", "image")
	archives, _ := filepath.Glob(filepath.Join(dir, "*.tar"))
	for _, archive := range archives {
		name := strings.TrimSuffix(filepath.Base(archive), ".tar")
		bar := "≤ 12 MB"
		if strings.HasPrefix(name, "proxy-") {
			bar = "≤ 50 MB"
		}
		row := func(what string, bytes int64, bar string) {
			fmt.Fprintf(out, "image %s, %s, MB\t–\t%.1f\t–\t%s\n", name, what, float64(bytes)/1e6, bar)
		}
		row("compressed", size(archive), bar)
		if arch, ok := strings.CutPrefix(name, "proxy-"); ok {
			row("Envoy in it", size(filepath.Join(dir, "envoy-"+arch)), "–")
			row("all but Envoy and agent", size(filepath.Join(dir, "root-"+arch)), "≤ 9 MB")
		}
	}
	if len(archives) == 0 {
		fmt.Fprintf(out, "images\t–\tnone: make image\t–\t≤ 50 MB\n")
	}
}

// size is that of a file, or of a directory's files.
func size(path string) (total int64) {
	_ = filepath.WalkDir(path, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil
		}
		if info, err := entry.Info(); err == nil && info.Mode()&os.ModeSymlink == 0 {
			total += info.Size()
		}
		return nil
	})
	return total
}
