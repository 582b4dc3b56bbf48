package application

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// running makes this test binary a command that runs its arguments as an application, as wait does.
const running = "PILOTLIGHT_RUN_APPLICATION"

func runArguments() int {
	signals, stop := Catch()
	defer stop()
	status, err := Application{Argv: os.Args[1:], Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}.Run(signals)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return status
}

// session is a program at a terminal of its own.
type session struct {
	t      *testing.T
	keys   *os.File
	mu     sync.Mutex
	screen bytes.Buffer
}

func newSession(t *testing.T, argv ...string) *session {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { keys.Close() })
	number, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(argv[0], argv[1:]...)
	command.Env = append(os.Environ(), running+"=1", "PS1=$ ", "TERM=dumb")
	command.Stdin, command.Stdout, command.Stderr = terminal, terminal, terminal
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	terminal.Close()
	t.Cleanup(func() { command.Process.Kill(); command.Wait() })
	s := &session{t: t, keys: keys}
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := keys.Read(buffer)
			s.mu.Lock()
			s.screen.Write(buffer[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return s
}

// types sends keys, and waits until the screen shows a text after them.
func (s *session) types(keys, until string) {
	s.t.Helper()
	s.mu.Lock()
	s.screen.Reset()
	s.mu.Unlock()
	if _, err := s.keys.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
	deadline := time.After(20 * time.Second)
	for {
		s.mu.Lock()
		screen := s.screen.String()
		s.mu.Unlock()
		if strings.Contains(screen, until) {
			return
		}
		select {
		case <-deadline:
			s.t.Fatalf("after %q the screen shows %q, want %q", keys, screen, until)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

const (
	ctrlC = "\x03"
	ctrlZ = "\x1a"
)

// reading makes this test binary a program that prints what it reads and how often it is interrupted, each as soon as
// it comes. A shell would not do: it runs the trap of a signal that comes just before its read after that read.
const reading = "PILOTLIGHT_READ_KEYS"

func readKeys() int {
	interrupts := make(chan os.Signal, 10)
	signal.Notify(interrupts, syscall.SIGINT)
	lines := make(chan string)
	go func() {
		scanner := bufio.NewScanner(os.Stdin)
		for scanner.Scan() && scanner.Text() != "end" { // what comes after the end is the shell's
			lines <- scanner.Text()
		}
		close(lines)
	}()
	n := 0
	for {
		select {
		case <-interrupts:
			n++
			fmt.Println("interrupts:", n)
		case line, more := <-lines:
			if more {
				fmt.Printf("read <%s>\n", line)
				continue
			}
			<-time.After(100 * time.Millisecond) // a second interrupt would come by now
			fmt.Println("all:", n+len(interrupts))
			return 4
		}
	}
}

// At a shell's terminal an application is a job like any other: it reads the keys, ^Z stops it and gives the shell
// back, fg goes on, ^C reaches it once.
func TestAJobAtATerminal(t *testing.T) {
	for name, line := range map[string]string{
		"typed":       "%[1]s env -u " + running + " " + reading + "=1 %[1]s\n",
		"in a script": `sh -c '"$0" env -u ` + running + " " + reading + `=1 "$0"; exit $?' %[1]s` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := newSession(t, "bash", "--norc", "--noprofile", "-i")
			s.types(fmt.Sprintf(line, executable(t)), "\n")
			s.types("one\n", "read <one>")
			s.types(ctrlZ, "Stopped")
			s.types("echo 'shell' again\n", "\nshell again")
			s.types("fg\n", reading)
			s.types("two\n", "read <two>")
			s.types(ctrlC, "interrupts: 1")
			s.types("end\n", "all: 1")
			s.types("echo status=$?\n", "status=4")
		})
	}
}

// If no shell can continue the application, as in a container with a terminal, it goes on after ^Z.
func TestATerminalWithoutAShell(t *testing.T) {
	s := newSession(t, executable(t), "sh", "-c", `echo begun; while read -r line; do echo "read <$line>"; done`)
	s.types("one\n", "read <one>")
	s.types(ctrlZ, "^Z")
	s.types("two\n", "read <two>")
}

// A script without job control has the terminal back when the application has ended.
func TestAScriptAtATerminal(t *testing.T) {
	s := newSession(t, "sh", "-c", `"$0" true; echo ended; read -r line; echo "then <$line>"`, executable(t))
	s.types("", "ended")
	s.types("one\n", "then <one>")
}

func executable(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
