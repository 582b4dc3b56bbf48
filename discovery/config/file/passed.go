package file

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/pilotlight/pilotlight/internal/safefile"
)

// Why a file that has objects of Istio is passed over.
var (
	errName   = errors.New("is not read, though it has objects of Istio: want a name that ends in .yaml, .yml or .json")
	errHidden = errors.New("is not read, though it has objects of Istio, because its directory's name begins with a dot")
)

// Bounds of the search for them: so many files and hidden directories in all, and so many bytes of each file.
const (
	maxPassed  = 1000
	passedRead = 64 << 10
)

var ofIstio = regexp.MustCompile(`(?:^|[\s{,"'])apiVersion["']?\s*:\s*["']?[a-z.-]*\.istio\.io/`)

// passes are the files that one look finds and does not read, though they have objects of Istio.
type passes struct {
	found []File
	left  int // of maxPassed
}

// name looks at a file of another name than those that are read. Names such as a.yaml.bak and a.yaml~ are chosen so that a
// file is not read; one without an extension, or with capital letters, is rather a mistake.
func (p *passes) name(path string) {
	if ext := filepath.Ext(path); ext == "" || named(strings.ToLower(filepath.Base(path))) {
		p.look(path, errName)
	}
}

// hidden looks at the files in a hidden directory and below it. The directories of Kubernetes' volumes begin with two dots; git
// keeps no file as it is.
func (p *passes) hidden(dir string) {
	for todo := []string{dir}; len(todo) > 0 && p.left > 0; todo = todo[1:] {
		p.left--
		if name := filepath.Base(todo[0]); name == ".git" || strings.HasPrefix(name, "..") {
			continue
		}
		entries, _ := os.ReadDir(todo[0])
		for _, e := range entries {
			switch path := filepath.Join(todo[0], e.Name()); {
			case e.IsDir():
				todo = append(todo, path)
			case named(e.Name()):
				p.look(path, errHidden)
			}
		}
	}
}

func (p *passes) look(path string, fault error) {
	if p.left <= 0 {
		return
	}
	p.left--
	file, err := safefile.Open(path)
	if err != nil {
		return
	}
	defer file.Close()
	if text, err := io.ReadAll(io.LimitReader(file, passedRead)); err == nil && ofIstio.Match(text) {
		p.found = append(p.found, File{Name: path, Passed: fault})
	}
}
