package ads

import (
	"os"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// The size of a program is a budget: additions are deliberate. A jump of many megabytes is probably a call of
// reflect.Value.MethodByName, which makes the linker keep every exported method of every type: `go build -ldflags=-dumpdep`
// marks the calling function with <ReflectMethod>.
func TestProgramsStaySmall(t *testing.T) {
	for name, most := range map[string]int64{"discovery": 60_000_000, "agent": 14_000_000} {
		info, err := os.Stat(lab.Program(name))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s has %d bytes", name, info.Size())
		if info.Size() > most {
			t.Errorf("%s has %d bytes, the budget is %d", name, info.Size(), most)
		}
	}
}
