//go:build linux

// Command standin plays the docker command, see package dockertest.
package main

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cookie marks the processes of a container in their environment.
const cookie = "DOCKER_STAND_IN_CONTAINER="

func main() {
	s := standin{root: os.Getenv("DOCKER_STAND_IN")}
	if s.root == "" || len(os.Args) < 2 {
		fail(125, "DOCKER_STAND_IN is not set")
	}
	args := os.Args[2:]
	switch os.Args[1] {
	case "version":
		fmt.Println("1.0.0")
	case "image":
		s.inspect(args[len(args)-1])
	case "pull":
		s.pull(args[len(args)-1])
	case "run":
		s.run(args)
	case "exec":
		s.exec(args)
	case "stop":
		s.stop(args[len(args)-1])
	case "ps":
		s.ps()
	default:
		fail(125, "unknown command "+os.Args[1])
	}
}

type standin struct{ root string }

func fail(code int, text string) {
	fmt.Fprintln(os.Stderr, "Error response from daemon: "+text)
	os.Exit(code)
}

func (s standin) there(image string) bool {
	if strings.HasPrefix(image, "slow") {
		_, err := os.Stat(filepath.Join(s.root, "pulled"))
		return err == nil
	}
	return !strings.HasPrefix(image, "missing")
}

func (s standin) inspect(image string) {
	if !s.there(image) {
		fail(1, "No such image: "+image)
	}
}

func (s standin) pull(image string) {
	if strings.HasPrefix(image, "missing") {
		fail(1, "pull access denied for "+image)
	}
	for !s.there(image) {
		time.Sleep(5 * time.Millisecond)
	}
}

func (s standin) run(args []string) {
	log, err := os.OpenFile(filepath.Join(s.root, "runs"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		fmt.Fprintln(log, strings.Join(args, " "))
	}
	b := make([]byte, 32)
	_, _ = rand.Read(b)
	id := hex.EncodeToString(b)
	name := id
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		if v, ok := strings.CutPrefix(args[0], "--name="); ok {
			name = v
		}
		args = args[1:]
	}
	if len(args) < 2 {
		fail(125, "no command")
	}
	if strings.HasPrefix(args[0], "crash") {
		fail(125, "failed to create task for container: "+args[0])
	}
	dir := filepath.Join(s.root, "containers", name)
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		fail(125, err.Error())
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		fail(125, "Conflict. The container name is already in use")
	}
	cmd := s.command(name, args[1:])
	if err := cmd.Start(); err != nil {
		fail(127, err.Error())
	}
	for file, text := range map[string]string{"id": id, "pid": strconv.Itoa(cmd.Process.Pid)} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			fail(125, err.Error())
		}
	}
	fmt.Println(id)
}

func (s standin) command(name string, args []string) *exec.Cmd {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Dir = filepath.Join(s.root, "containers", name)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/root", cookie + s.root + "/" + name}
	return cmd
}

// find returns the name of a container that runs.
func (s standin) find(given string) string {
	name := s.name(given)
	if name == "" {
		fail(1, "No such container: "+given)
	}
	if !s.alive(name) {
		fail(1, "container "+given+" is not running")
	}
	return name
}

func (s standin) name(given string) string {
	dirs, _ := filepath.Glob(filepath.Join(s.root, "containers", "*"))
	for _, d := range dirs {
		id, _ := os.ReadFile(filepath.Join(d, "id"))
		if filepath.Base(d) == given || string(id) == given {
			return filepath.Base(d)
		}
	}
	return ""
}

func (s standin) alive(name string) bool {
	b, _ := os.ReadFile(filepath.Join(s.root, "containers", name, "pid"))
	pid, err := strconv.Atoi(string(b))
	return err == nil && syscall.Kill(pid, 0) == nil
}

func (s standin) exec(args []string) {
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		args = args[1:]
	}
	cmd := s.command(s.find(args[0]), args[1:])
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	if cmd.ProcessState == nil {
		fail(127, err.Error())
	}
	if w, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		os.Exit(128 + int(w.Signal()))
	}
	os.Exit(cmd.ProcessState.ExitCode())
}

func (s standin) stop(given string) {
	name := s.name(given)
	if name == "" {
		fail(1, "No such container: "+given)
	}
	procs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, p := range procs {
		env, _ := os.ReadFile(p)
		if pid, err := strconv.Atoi(strings.Split(p, "/")[2]); err == nil && strings.Contains(string(env)+"\x00", cookie+s.root+"/"+name+"\x00") {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	_ = os.RemoveAll(filepath.Join(s.root, "containers", name))
	fmt.Println(given)
}

func (s standin) ps() {
	dirs, _ := filepath.Glob(filepath.Join(s.root, "containers", "*"))
	for _, d := range dirs {
		if name := filepath.Base(d); s.alive(name) {
			fmt.Println(name)
		}
	}
}
