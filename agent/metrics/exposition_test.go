package metrics

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// joined returns the joined text, and how many lines were dropped.
func joined(open bool, texts ...string) (string, int) {
	var out bytes.Buffer
	e := newExposition(&out)
	dropped := 0
	for _, text := range texts {
		c, err := e.copy(strings.NewReader(text), 1<<20, open)
		if err != nil {
			panic(err)
		}
		dropped += c.dropped
	}
	e.to.Flush()
	return out.String(), dropped
}

func TestExposition(t *testing.T) {
	for _, test := range []struct {
		name, from, want string
		dropped          int
	}{
		{"a family", "# HELP a of it\n# TYPE a counter\na{x=\"1\"} 2\na 3 1700000000000\n", "# HELP a of it\n# TYPE a counter\na{x=\"1\"} 2\na 3 1700000000000\n", 0},
		{"the last line has no end", "a 1", "a 1\n", 0},
		{"OpenMetrics' end in a text", "a 1\n# EOF\nb 2\n", "a 1\nb 2\n", 0},
		{"comments and empty lines mean nothing", "\n# a comment\n#\n  \na 1\n", "a 1\n", 0},
		{"what only the agent tells", "# TYPE pilotlight_agent_ready gauge\npilotlight_agent_ready 0\npilotlight 1\n", "pilotlight 1\n", 2},
		{"blanks", " a {x = \"1\" , y=\"2\",}\t1  \n", "a{x = \"1\" , y=\"2\",} 1\n", 0},
		{"all kinds of numbers", "a NaN\nb +Inf\nc -1.5e-7\n", "a NaN\nb +Inf\nc -1.5e-7\n", 0},
		{"an HTML page", "<html>\n<body>404</body>\n</html>\n", "", 3},
		{"no value", "a\nb \nc{x=\"1\"}\n", "", 3},
		{"no number", "a one\nb 0x1p3\nc 1_000\nd 1 now\ne 1 2 3\n", "", 5},
		{"malformed labels", "a{x} 1\nb{x=1} 1\nc{x=\"1} 1\nd{x=\"1\" y=\"2\"} 1\ne{=\"1\"} 1\nf{x=\"\\t\"} 1\ng{1=\"1\"} 1\n", "", 7},
		{"a label twice", "a{x=\"1\",x=\"2\"} 1\n", "", 1},
		{"the name as a label", "a{__name__=\"b\"} 1\n", "", 1},
		{"no UTF-8", "a{x=\"\xff\"} 1\n# HELP a \xff\n", "", 2},
		{"escapes of labels", `a{x="\\ \" \n"} 1` + "\n", `a{x="\\ \" \n"} 1` + "\n", 0},
		{"a brace and a hash in a label", `a{x="} # "} 1` + "\n", `a{x="} # "} 1` + "\n", 0},
		{"a kind that the text format has not", "# TYPE a stateset\na 1\n", "a 1\n", 1},
		{"a name that is none", "# TYPE 1a gauge\n1a 1\n# HELP a-b text\n", "", 3},
		{"a carriage return", "a 1\r\n# TYPE b gauge\r\nb 1\n", "b 1\n", 2},
		{"TYPE twice", "# TYPE a gauge\na{x=\"1\"} 1\n# TYPE a gauge\na{x=\"2\"} 1\n", "# TYPE a gauge\na{x=\"1\"} 1\na{x=\"2\"} 1\n", 0},
		{"TYPE after a sample that is no part, for its family is no histogram", "a 1\na_sum 1\n# TYPE a_sum gauge\na_sum{x=\"2\"} 1\n", "a 1\na_sum 1\na_sum{x=\"2\"} 1\n", 0},
		{"TYPE of a part of a histogram that was a gauge before", "# TYPE a gauge\na 1\n# TYPE a histogram\na_sum 1\n# TYPE a_sum gauge\n", "# TYPE a gauge\na 1\na_sum 1\n", 0},
		{"TYPE after its samples", "a 1\n# TYPE a gauge\na{x=\"2\"} 1\n", "a 1\na{x=\"2\"} 1\n", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, dropped := joined(false, test.from)
			if got != test.want || dropped != test.dropped {
				t.Errorf("got %q, %d dropped\nwant %q, %d", got, dropped, test.want, test.dropped)
			}
			parses(t, got)
		})
	}
}

// Metrics that Envoy and the application both have become one family: no parser takes a second TYPE.
func TestExpositionOfSeveral(t *testing.T) {
	got, dropped := joined(false,
		"# HELP a A\n# TYPE a histogram\na_bucket{le=\"1\"} 1\na_bucket{le=\"+Inf\"} 1\na_sum 1\na_count 1\nuntyped_total 3\n",
		"# HELP a other\n# TYPE a gauge\na{x=\"2\"} 1\n# TYPE untyped_total counter\nuntyped_total{x=\"2\"} 4\n# TYPE own gauge\nown 1\n")
	want := "# HELP a A\n# TYPE a histogram\na_bucket{le=\"1\"} 1\na_bucket{le=\"+Inf\"} 1\na_sum 1\na_count 1\nuntyped_total 3\n" +
		"a{x=\"2\"} 1\nuntyped_total{x=\"2\"} 4\n# TYPE own gauge\nown 1\n"
	if got != want || dropped != 0 {
		t.Errorf("got %q, %d dropped\nwant %q", got, dropped, want)
	}
	parses(t, got)
}

func TestExpositionOfOpenMetrics(t *testing.T) {
	got, dropped := joined(true, `# TYPE requests counter
# UNIT requests requests
# HELP requests Of all.
requests_total{code="200"} 7 1700000000.5 # {trace_id="a"} 1.0 1700000000.0
requests_created 1700000000
# TYPE build info
build_info{version="1 # 2"} 1
# TYPE state stateset
state{state="on"} 1
# TYPE wait histogram
wait_bucket{le="+Inf"} 2 # {} 3
wait_sum 1
wait_count 2
# TYPE what unknown
what 1 NaN
# EOF
`)
	want := `# TYPE requests_total counter
requests_total{code="200"} 7 1700000000500
requests_created 1700000000
# TYPE build_info gauge
build_info{version="1 # 2"} 1
# TYPE state gauge
state{state="on"} 1
# TYPE wait histogram
wait_bucket{le="+Inf"} 2
wait_sum 1
wait_count 2
# TYPE what untyped
`
	if got != want || dropped != 1 {
		t.Errorf("got, %d dropped\n%s\nwant\n%s", dropped, got, want)
	}
	parses(t, got)
}

func TestExpositionIsBounded(t *testing.T) {
	var out bytes.Buffer
	e := newExposition(&out)
	long := "long{x=\"" + strings.Repeat("x", 3*longestMetric) + "\"} 1\n"
	c, err := e.copy(strings.NewReader("a 1\n"+long+"b 2\n"+long[:len(long)-1]), 10*longestMetric, false)
	if err != nil || c.dropped != 2 {
		t.Errorf("lines that are too long: %+v, %v; want 2 dropped", c, err)
	}
	if c, err := e.copy(strings.NewReader(strings.Repeat("c 1\n", 1000)), 400, false); !errors.Is(err, errTooLong) {
		t.Errorf("a text that is too long: %+v, %v", c, err)
	}
	if _, err := e.copy(io.MultiReader(strings.NewReader("d 1\ne 1"), iotest.ErrReader(io.ErrUnexpectedEOF)), 400, false); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a text that is cut short: %v", err)
	}
	e.to.Flush()
	if want := "a 1\nb 2\n" + strings.Repeat("c 1\n", 100) + "d 1\n"; out.String() != want {
		t.Errorf("got %.200q, want %.200q", out.String(), want)
	}
}

// gone is a scraper that takes so many bytes.
type gone int

func (g *gone) Write(p []byte) (int, error) {
	if *g -= gone(len(p)); *g < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

func TestExpositionEndsWithItsScraper(t *testing.T) {
	taker := gone(100_000)
	c, err := newExposition(&taker).copy(strings.NewReader(strings.Repeat("a_metric 1\n", 100_000)), 1<<30, false)
	if !errors.Is(err, errGone) || c.bytes > 200_000 {
		t.Errorf("%d bytes were read, %v; want no more than are taken", c.bytes, err)
	}
}

func parses(t *testing.T, text string) {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	_, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err == nil {
		return
	}
	// This parser makes more of a histogram's and a summary's labels than Prometheus's own, which takes them as they are.
	if why := err.Error(); !strings.Contains(why, "expected float as value for") {
		t.Errorf("Prometheus's parser: %v, of\n%s", err, text)
	}
}

// FuzzExposition: for any texts of two sources, a scraper accepts the result.
func FuzzExposition(f *testing.F) {
	f.Add("# TYPE a counter\na{x=\"1\"} 2 3\n", "# HELP a \\n\n# TYPE a gauge\na 1", false)
	f.Add("# TYPE a info\na_info{x=\"1\"} 1 # {} 2\n# EOF", "a_info 1\n# TYPE a summary\na{quantile=\"0.5\"} 1\n", true)
	f.Add("a_count 1\n# TYPE a histogram\na_bucket{le=\"1\"} 1\na_sum NaN", "# TYPE a_sum gauge\na_sum 1\n# TYPE a_bucket gauge\n", false)
	f.Fuzz(func(t *testing.T, first, second string, open bool) {
		got, _ := joined(open, first, second)
		parses(t, got)
		if again, dropped := joined(false, got); again != got || dropped != 0 {
			t.Errorf("of its own output, %d lines dropped:\n%q\n%q", dropped, got, again)
		}
	})
}

// endless is a line without an end.
type endless struct{ read int64 }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	e.read += int64(len(p))
	return len(p), nil
}

func TestALineWithoutAnEnd(t *testing.T) {
	from := &endless{}
	e := newExposition(io.Discard)
	if _, err := e.copy(from, 1<<20, false); !errors.Is(err, errTooLong) {
		t.Errorf("%v, want %v", err, errTooLong)
	}
	if from.read > 2<<20 {
		t.Errorf("%d bytes are read, want about a MiB", from.read)
	}
}
