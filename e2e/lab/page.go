package lab

import (
	"bufio"
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/internal/clidoc"
)

// Block is a block of commands of a page, and what they print.
type Block struct {
	Line     int // of its first command
	Commands string
	Output   string // of the text block that follows it; … stands for anything
	Printed  bool   // a text block follows it
}

// Blocks are the sh blocks of a page in Markdown. A text block that follows one, with whatever words between them, is its output.
func Blocks(page string) (blocks []Block) {
	for _, f := range clidoc.Fences(page) {
		switch last := len(blocks) - 1; f.Language {
		case "sh":
			blocks = append(blocks, Block{Line: f.Line, Commands: f.Text})
		case "text":
			if last >= 0 && !blocks[last].Printed {
				blocks[last].Output, blocks[last].Printed = f.Text, true
			}
		}
	}
	return blocks
}

// BlocksOf are those of a page of the documentation, which has some.
func BlocksOf(t testing.TB, page string) []Block {
	t.Helper()
	text, err := os.ReadFile(Path(page))
	if err != nil {
		t.Fatal(err)
	}
	blocks := Blocks(string(text))
	if len(blocks) == 0 {
		t.Fatalf("%s has no commands", page)
	}
	return blocks
}

// Matches reports whether an output is the block's. Runs of spaces are equal, for columns are as wide as what stands in them.
func (b Block) Matches(output string) bool {
	var lines []string
	for line := range strings.Lines(b.Output) {
		words := strings.Fields(line)
		for i, word := range words {
			words[i] = strings.ReplaceAll(regexp.QuoteMeta(word), "…", ".*")
		}
		lines = append(lines, `[ \t]*`+strings.Join(words, `[ \t]+`)+`[ \t]*`)
	}
	whole := regexp.MustCompile(`^\s*` + strings.Join(lines, `\n`) + `\s*$`)
	return whole.MatchString(output)
}

// ended stands before the exit status of a block.
const ended = "the block has ended: "

// Follow runs the blocks of a page one after the other in one shell, in a directory of their own, as its reader does, with further variables.
// A block without output must succeed. One with output is run again until it prints that, as a reader looks again, for at most half a minute.
// What the page starts it also stops.
func Follow(t *testing.T, page string, env ...string) {
	t.Helper()
	s := StartShell(t, nil, env...)
	for _, b := range BlocksOf(t, page) {
		s.Follow(page, b)
	}
	s.Ended(page)
}

// Ended checks that what the blocks of a page have started there has ended.
func (s *Shell) Ended(page string) {
	s.t.Helper()
	if err := Eventually(StopLimit, func() error {
		if left := Children(s.Pid); len(left) != 0 {
			return fmt.Errorf("at its end %s leaves %d programs running", page, len(left))
		}
		return nil
	}); err != nil {
		s.t.Error(err)
	}
}

// Shell is a bash that a page is typed into.
type Shell struct {
	Home string // where its commands begin

	*Process
	t     *testing.T
	stdin *os.File
	lines chan string // closed when nobody writes there any more
}

// StartShell starts a bash in a directory of its own, by a command that leads to another place if there is one, with further variables.
func StartShell(t *testing.T, around []string, env ...string) *Shell {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, printed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	s := &Shell{Home: home, t: t, stdin: write, lines: make(chan string)}
	s.Process, err = Start(Spec{
		Name: "bash", Dir: t.TempDir(), Work: home, Argv: append(around, "bash", "--norc", "--noprofile"),
		Env:   append([]string{"PATH=" + Programs() + ":" + os.Getenv("PATH"), "HOME=" + home}, env...),
		Stdin: read, Stdout: printed, Stderr: printed,
	})
	if err != nil {
		t.Fatal(err)
	}
	read.Close()
	printed.Close()
	if _, err := write.WriteString("cd '" + home + "'\n"); err != nil { // a place that around leads to may begin elsewhere
		t.Fatal(err)
	}
	go func() {
		defer close(s.lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			s.lines <- scanner.Text()
		}
	}()
	t.Cleanup(func() {
		for _, pid := range Children(s.Pid) {
			_ = syscall.Kill(pid, syscall.SIGTERM) // an agent ends its Envoy
		}
		write.Close()
		for range s.lines { // until the last program that writes there has ended
		}
		s.Stop(StopLimit)
		out.Close()
	})
	return s
}

// Follow runs a block of a page, and compares what it prints.
func (s *Shell) Follow(page string, b Block) {
	s.t.Helper()
	if err := Eventually(30*time.Second, func() error {
		output, status := s.run(b.Commands)
		if !b.Printed && status != "0" {
			s.t.Fatalf("%s:%d: exit status %s:\n%s", page, b.Line, status, output)
		}
		if b.Printed && !b.Matches(output) {
			return fmt.Errorf("%s:%d: it prints\n%s\nand the page says\n%s", page, b.Line, output, b.Output)
		}
		return nil
	}); err != nil {
		s.t.Fatal(err)
	}
}

// run runs commands. Their status is that of the first that fails outside of a condition, or 0.
func (s *Shell) run(commands string) (output, status string) {
	s.t.Helper()
	script := "failed=0; trap '[ $failed != 0 ] || failed=$?' ERR\n" + commands + "\ntrap - ERR; printf '\\n%s%s\\n' '" + ended + "' $failed\n"
	if _, err := s.stdin.WriteString(script); err != nil {
		s.t.Fatalf("type into the shell: %v", err)
	}
	var b strings.Builder
	limit := time.After(2 * time.Minute)
	for {
		select {
		case line, open := <-s.lines:
			if status, found := strings.CutPrefix(line, ended); found {
				return b.String(), status
			}
			if !open {
				s.t.Fatalf("the shell has ended:\n%s", b.String())
			}
			b.WriteString(line + "\n")
		case <-limit:
			s.t.Fatalf("it does not end in two minutes:\n%s\nIt has printed:\n%s", commands, b.String())
		}
	}
}

// Code returns the code of a language on a page of the documentation, in its order.
func Code(t testing.TB, page, language string) (out []string) {
	t.Helper()
	text, err := os.ReadFile(Path(page))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range clidoc.Fences(string(text)) {
		if f.Language == language {
			out = append(out, f.Text)
		}
	}
	if len(out) == 0 {
		t.Fatalf("%s has no block of %s", page, language)
	}
	return out
}

// Command returns the commands of a page that are these words, or else the only ones with these words in them.
func Command(t testing.TB, page, words string) string {
	t.Helper()
	return clidoc.Command(t, Path(page), words)
}
