package pilotlight_test

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// make test leaves the race detector out for packages of functions of values only, which are those that deps_test.go keeps goroutines out of.
func TestPureRoomsAreTestedWithoutTheRaceDetector(t *testing.T) {
	text, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "\npure := ")
	list, _, _ = strings.Cut(strings.ReplaceAll(list, "\\\n", ""), "\n")
	if got, want := strings.ReplaceAll(strings.Join(strings.Fields(list), " "), "./", ""), strings.Join(strings.Fields(pureRooms), " "); got != want {
		t.Errorf("the Makefile's pure is %q, want %q", got, want)
	}
}

// make test leaves the race detector out for costly tests by their names. One in a package that the other run does not have would run
// nowhere.
func TestCostlyTestsRunWithoutTheRaceDetector(t *testing.T) {
	text, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`(?m)^costly := (.+)$`).FindSubmatch(text)
	packages := regexp.MustCompile(`(?m)^\tgo test .*-run '\$\(costly\)' (.+)$`).FindSubmatch(text)
	if names == nil || packages == nil {
		t.Fatal("the Makefile has no costly tests, or does not run them")
	}
	missing := map[string]bool{}
	for name := range strings.SplitSeq(strings.ReplaceAll(string(names[1]), "$$", "$"), "|") {
		missing[strings.Trim(name, "^$")] = true
	}
	costly := regexp.MustCompile(strings.ReplaceAll(string(names[1]), "$$", "$"))
	run := strings.Fields(strings.ReplaceAll(string(packages[1]), "./", ""))
	err = fs.WalkDir(os.DirFS("."), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && (name == "bin" || name == "run") {
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		for _, test := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(text, -1) {
			if !costly.Match(test[1]) {
				continue
			}
			delete(missing, string(test[1]))
			if !slices.ContainsFunc(run, func(pattern string) bool { return matches(pattern, path.Dir(name)) }) {
				t.Errorf("%s of %s runs nowhere", test[1], name)
			}
		}
		return err
	})
	if err != nil || len(missing) > 0 {
		t.Errorf("no such tests: %v; %v", missing, err)
	}
}
