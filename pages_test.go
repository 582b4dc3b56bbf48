package pilotlight_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/internal/clidoc"
)

// unfollowed are the commands of README and docs that no test types, by words in them, and why.
var unfollowed = []struct{ page, words, why string }{
	{"README.md", "make test", "it runs this test; .ci/run types it"},
	{"docs/kubernetes.md", "docker build", "needs docker; e2e/node makes the images itself"},
	{"docs/kubernetes.md", "status.loadBalancer", "needs a cluster that gives Services addresses; e2e/node asks at the Service's own"},
}

// following are the calls in tests that run commands of a page: all that are marked sh, those of a language, or one block.
var following = struct{ all, language, one *regexp.Regexp }{
	regexp.MustCompile(`\b(?:followed|[fF]ollow|BlocksOf)\([^"\n]*"([\w/.-]+\.md)"`),
	regexp.MustCompile(`\blab\.Code\([^"\n]*"([\w/.-]+\.md)", "(\w+)"\)`),
	regexp.MustCompile(`\b(?:lab|clidoc)\.Command\([^"\n]*"([\w/.-]+\.md)", "([^"\\]+)"\)`),
}

// Each block of commands in README and docs is typed by a test, or stands above with a reason.
func TestEveryCommandIsFollowed(t *testing.T) {
	pages, followed := shown(t), follows(t)
	for _, x := range unfollowed {
		f, err := clidoc.Pick(pages[x.page], x.words)
		if err != nil {
			t.Errorf("%s: %v", x.page, err)
		}
		if followed[place{x.page, f.Line}] {
			t.Errorf("%s:%d: a test follows it, so it is no exception", x.page, f.Line)
		}
		followed[place{x.page, f.Line}] = true
		if target, made := strings.CutPrefix(x.words, "make "); made && !slices.Contains(inCI(t), target) {
			t.Errorf("%s: .ci/run does not make %s", x.page, target)
		}
	}
	for page, text := range pages {
		for _, f := range clidoc.Fences(text) {
			if f.Typed() && !followed[place{page, f.Line}] {
				t.Errorf("%s:%d: no test follows this block (lab.Follow a page, or take it by lab.Command):\n%s", page, f.Line, f.Text)
			}
		}
		for i, line := range typedOutside(text) {
			t.Errorf("%s: line %d looks like a command, and is in no block that is marked sh or console: %s", page, i, line)
		}
	}
}

// inCI returns the targets of the Makefile that .ci/run makes.
func inCI(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(".ci/run")
	if err != nil {
		t.Fatal(err)
	}
	targets := regexp.MustCompile(`(?m)^targets=\((.*)\)$`).FindSubmatch(text)
	if targets == nil {
		t.Fatal(".ci/run has no line of targets")
	}
	return strings.Fields(string(targets[1]))
}

// place is the first line of a block of a page.
type place struct {
	page string
	line int
}

// shown are README and the pages of docs, without those that are made from the programs, and the designs.
func shown(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("docs/*.md")
	if err != nil || len(paths) == 0 {
		t.Fatalf("pages: %q, %v", paths, err)
	}
	pages := map[string]string{}
	for _, path := range append(paths, "README.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		pages[path] = string(text)
	}
	return pages
}

// follows are the blocks that tests take from the pages, behind any build tag.
func follows(t *testing.T) map[place]bool {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "grep", "-hE", `([fF]ollow(ed)?|BlocksOf|Code|Command)\(.*\.md"`, "--", "*_test.go", ":!/pages_test.go").Output()
	if err != nil {
		t.Fatalf("git grep: %v", err)
	}
	pages, followed := shown(t), map[place]bool{}
	in := func(page, language string) {
		for _, f := range clidoc.Fences(pages[page]) {
			if f.Language == language {
				followed[place{page, f.Line}] = true
			}
		}
	}
	for _, m := range following.all.FindAllStringSubmatch(string(out), -1) {
		in(m[1], "sh")
	}
	for _, m := range following.language.FindAllStringSubmatch(string(out), -1) {
		in(m[1], m[2])
	}
	for _, m := range following.one.FindAllStringSubmatch(string(out), -1) {
		page := strings.TrimPrefix(filepath.Clean(filepath.Join("/", m[1])), "/") // a test of a package below names it by ../..
		f, err := clidoc.Pick(pages[page], m[2])
		if err != nil {
			t.Errorf("a test wants %q of %s: %v", m[2], page, err)
		}
		followed[place{page, f.Line}] = true
	}
	return followed
}

// programsTyped begin a line that a reader would type.
var programsTyped = regexp.MustCompile(`^ *(\$ |sudo |make |agent |discovery |pod-init |consul |nomad |kubectl |curl |systemctl |go |docker |openssl |[A-Z_]+=\S+ )`)

// typedOutside are the lines of a page that look like commands, and are indented or in blocks of no language, so that nobody looks for a test.
func typedOutside(page string) map[int]string {
	out := map[int]string{}
	lines := strings.Split(page, "\n")
	fenced := make([]bool, len(lines)+1)
	for _, f := range clidoc.Fences(page) {
		for i := range strings.Count(f.Text, "\n") {
			fenced[f.Line-1+i] = true
			if f.Language == "" && programsTyped.MatchString(lines[f.Line-1+i]) {
				out[f.Line+i] = lines[f.Line-1+i]
			}
		}
	}
	for i, line := range lines {
		if !fenced[i] && strings.HasPrefix(line, "    ") && programsTyped.MatchString(line) {
			out[i+1] = line
		}
	}
	return out
}

// The pages and the calls that are found are those that are meant.
func TestTypedOutside(t *testing.T) {
	const page = "# Page\n\n    make demo\n\nmake sure\n\n```\nmake x\na ─▶ b\n```\n\n```sh\nmake y\n    make z\n```\n"
	if got := typedOutside(page); len(got) != 2 || got[3] != "    make demo" || got[8] != "make x" {
		t.Errorf("got %v", got)
	}
	const calls = `lab.Follow(t, "docs/a.md", "X=1"); followed(t, "docs/b.md"); c.follow("docs/c.md"); lab.Code(t, "docs/d.md", "yaml"); clidoc.Command(t, "../../docs/e.md", "make it")`
	var all []string
	for _, m := range following.all.FindAllStringSubmatch(strings.ReplaceAll(calls, "; ", "\n"), -1) {
		all = append(all, m[1])
	}
	one, language := following.one.FindStringSubmatch(calls), following.language.FindStringSubmatch(calls)
	if !slices.Equal(all, []string{"docs/a.md", "docs/b.md", "docs/c.md"}) || one == nil || one[2] != "make it" || language == nil || language[2] != "yaml" {
		t.Errorf("got %q, %q, %q", all, one, language)
	}
}
