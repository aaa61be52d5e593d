//go:build linux

package supervise

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test binary is also every program that the tests run: roles are what it does then.
const roleVariable = "SUPERVISE_TEST_ROLE"

var roles = map[string]func(args []string){
	"record":     record,
	"stubborn":   stubborn,
	"daemonise":  daemonise,
	"daemon":     daemon,
	"churn":      churn,
	"supervisor": supervisor,
}

func TestMain(m *testing.M) {
	if role := roles[os.Getenv(roleVariable)]; role != nil {
		role(os.Args[1:])
		os.Exit(0)
	}
	// Under nohup the programs of the tests would ignore what is sent to them: a signal that is caught here is the
	// default there.
	if ignored := slices.DeleteFunc(slices.Clone(forwarded), func(s os.Signal) bool { return !signal.Ignored(s) }); len(ignored) > 0 {
		signal.Notify(make(chan os.Signal, 1), ignored...)
	}
	goleak.VerifyTestMain(m)
}

// part builds a command of this package's own test program in a role.
func part(role string, args ...string) *Command {
	return &Command{Args: append([]string{self()}, args...), Env: append(os.Environ(), roleVariable+"="+role, "GORACE=atexit_sleep_ms=0"), KillAfter: time.Minute}
}

// shell builds a command of a shell script.
func shell(script string, args ...string) *Command {
	return &Command{Args: append([]string{"/bin/sh", "-c", script, "sh"}, args...), KillAfter: time.Minute}
}

func self() string {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return path
}

// spawn starts this program in a role below the running one.
func spawn(role string, session bool, args ...string) *exec.Cmd {
	cmd := exec.Command(self(), args...)
	cmd.Env = append(os.Environ(), roleVariable+"="+role, "GORACE=atexit_sleep_ms=0")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: session}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	return cmd
}

// record prints every signal that it gets, and exits with 7 on TERM if told so by its second argument. With the name
// "leader" it starts another one in its group.
func record(args []string) {
	got := make(chan os.Signal, 16)
	signal.Notify(got, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	if args[0] == "leader" {
		spawn("record", false, append([]string{"member"}, args[1:]...)...)
	}
	fmt.Println(args[0], "ready", os.Getpid())
	for sig := range got {
		fmt.Println(args[0], sig)
		if len(args) > 1 && sig == syscall.SIGTERM {
			os.Exit(7)
		}
	}
}

// stubborn ignores what can be ignored, and has a member of its group and a daemon that do the same.
func stubborn(args []string) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	if len(args) == 0 {
		spawn("stubborn", false, "member")
		spawn("stubborn", true, "daemon")
	}
	fmt.Println("ready", os.Getpid())
	select {}
}

// daemonise leaves a daemon behind: out of the session, its parent gone, with a child of its own. It ends when its
// standard input says so.
func daemonise(args []string) {
	if len(args) > 0 && args[0] == "between" {
		spawn("daemon", true, args[1:]...)
		return
	}
	if err := spawn("daemonise", true, append([]string{"between"}, args...)...).Wait(); err != nil {
		panic(err)
	}
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		panic(err)
	}
}

// daemon lives until TERM or until nobody has the named pipe in its first argument open for writing.
func daemon(args []string) {
	if args[len(args)-1] != "child" {
		spawn("daemon", false, append(args, "child")...)
	}
	end, err := os.Open(args[0])
	if err != nil {
		panic(err)
	}
	fmt.Println("daemon", os.Getpid())
	if _, err := io.ReadAll(end); err != nil {
		panic(err)
	}
	fmt.Println("daemon ends")
}

// churn starts processes as fast as it can, so that process ids come round, and prints how many ended badly.
func churn([]string) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGUSR1)
	defer stop()
	fmt.Println("churning")
	bad := 0
	for ctx.Err() == nil {
		if err := exec.Command("/bin/true").Run(); err != nil {
			bad++
		}
	}
	fmt.Println("bad", bad)
}

// supervisor is a program that does nothing but run the command in its arguments, by the options before "--".
func supervisor(args []string) {
	split := slices.Index(args, "--")
	c := &Command{Args: args[split+1:], KillAfter: time.Minute, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	c.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, roleVariable+"=") })
	ctx, cancel := context.WithCancelCause(context.Background())
	c.OnStop = func() { fmt.Println("SUPERVISOR stops") }
	c.OnContinue = func() {
		fmt.Println("SUPERVISOR continues")
		if slices.Contains(args[:split], "expire") {
			cancel(errors.New("expired while suspended"))
		}
	}
	if slices.Contains(args[:split], "trace") {
		c.hooks.signalling = func(_ int, sig syscall.Signal) { fmt.Println("SUPERVISOR sends", sig) }
	}
	if slices.Contains(args[:split], "role") {
		c.Env = append(c.Env, roleVariable+"="+c.Args[0])
		c.Args[0] = self()
	}
	signals, stop := Notify()
	defer stop()
	result, err := c.Run(ctx, signals)
	if err != nil {
		fmt.Println("SUPERVISOR error", err)
	}
	os.Exit(result.ExitCode)
}
