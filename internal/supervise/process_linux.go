package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// process is one line of the kernel's books. Process id and start time together name a process for good.
type process struct {
	pid    int
	name   string
	parent int
	group  int
	dead   bool   // only its status is left
	start  uint64 // ticks since boot
}

type identity struct {
	pid   int
	start uint64
}

func (p process) identity() identity { return identity{p.pid, p.start} }

func readProcess(pid int) (process, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, err
	}
	return parseStat(text)
}

// parseStat reads /proc/PID/stat. The name stands in parentheses and may itself contain spaces and parentheses.
func parseStat(text []byte) (p process, err error) {
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return p, errors.New("no name in /proc/PID/stat")
	}
	rest := strings.Fields(string(text[end+1:]))
	if len(rest) < 20 {
		return p, fmt.Errorf("only %d fields in /proc/PID/stat", len(rest)+2)
	}
	p.name = string(text[open+1 : end])
	p.pid, err = strconv.Atoi(strings.TrimSpace(string(text[:open])))
	number := func(field int) (n uint64) { // counted as in proc(5)
		var bad error
		if n, bad = strconv.ParseUint(rest[field-3], 10, 64); bad != nil && err == nil {
			err = bad
		}
		return n
	}
	p.parent, p.group, p.start = int(number(4)), int(number(5)), number(22)
	// A process whose first thread has ended shows as a zombie although its other threads go on.
	p.dead = rest[0] == "X" || rest[0] == "Z" && number(20) <= 1
	return p, err
}

// allProcesses reads the books once. They are not read at one moment: a process may come or go meanwhile.
func allProcesses() (map[int]process, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	all := make(map[int]process, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, err := readProcess(pid); err == nil { // otherwise it has ended
			all[pid] = p
		}
	}
	return all, nil
}
