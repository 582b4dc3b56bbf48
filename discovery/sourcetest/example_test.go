package sourcetest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/pilotlight/pilotlight/discovery/sourcetest"
)

// The fake of a registry counts its requests, and fails when the suite breaks it.
func ExampleQuestions() {
	var questions sourcetest.Questions
	fake := http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		questions.Asked(in)
		if questions.Broken(out, in) {
			return
		}
		fmt.Fprint(out, "[]")
	})
	ask := func() int {
		answer := httptest.NewRecorder()
		fake.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/services", nil))
		return answer.Code
	}
	fmt.Println(ask())
	questions.BreakWith(func(out http.ResponseWriter, _ *http.Request) bool {
		http.Error(out, "away", http.StatusServiceUnavailable)
		return true
	})
	fmt.Println(ask())
	questions.BreakWith(nil)
	fmt.Println(ask(), questions.Times("/services"))
	// Output:
	// 200
	// 503
	// 200 3
}
