package content

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Resources of all proxies are searched once for the clusters that are new, also where they are one large route
// configuration; a proxy's own ones are searched each time.
func TestLargePartsAreSearchedOnce(t *testing.T) {
	sh := NewShare(NewInterner())
	added := sh.Interner.Of([]string{"outbound|80||new.test"})
	for _, test := range [][2]int{{100, 0}, {1 << 20, 1}} {
		size, want := test[0], test[1]
		routes := NewSet(RDS, []*Resource{Encode("80", wrapperspb.String(strings.Repeat("x", size)+"outbound|80||old.test"))})
		for range 10 {
			if sh.References(whole(routes), added) {
				t.Errorf("%d bytes speak of what is not in them", size)
			}
		}
		if got := len(sh.found.values); got != want {
			t.Errorf("%d bytes: %d searches are remembered, want %d", size, got, want)
		}
	}
}

// A search for many names at once gives the same result as a search for each of them.
func TestContentSpeaksOfNames(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	text := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = "ab|"[random.IntN(3)]
		}
		return string(b)
	}
	for range 20_000 {
		body := []byte(text(random.IntN(30)))
		var list []string
		for range 1 + random.IntN(5) {
			list = append(list, text(1+random.IntN(6)))
		}
		slices.Sort(list)
		want := slices.ContainsFunc(list, func(name string) bool { return bytes.Contains(body, []byte(name)) })
		if got := containsAny(body, list); got != want {
			t.Fatalf("%q in %q: %t, want %t", list, body, got, want)
		}
	}
}
