package pilotlight_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// make test leaves the race detector out for packages of functions of values only: the rule that keeps goroutines out of them
// names each.
func TestOnlyPureRoomsAreTestedWithoutTheRaceDetector(t *testing.T) {
	text, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^pure := (.+)$`).FindSubmatch(text)
	if found == nil {
		t.Fatal("the Makefile names no pure packages")
	}
	for name := range strings.FieldsSeq(string(found[1])) {
		if !slices.Contains(strings.Fields(pureRooms), strings.TrimPrefix(name, "./")) {
			t.Errorf("%s is tested without the race detector, and deps_test.go does not keep goroutines out of it", name)
		}
	}
}
