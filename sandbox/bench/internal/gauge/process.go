package gauge

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Resident returns the resident memory of a process, in MB (10^6 bytes).
func Resident(pid int) (float64, error) { return memory(pid, "VmRSS:") }

// PeakResident returns the most that the resident memory of a process has been, in
// MB.
func PeakResident(pid int) (float64, error) { return memory(pid, "VmHWM:") }

func memory(pid int, field string) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut(string(status), field)
	fields := strings.Fields(rest)
	if !found || len(fields) == 0 {
		return 0, fmt.Errorf("no %s in %s", field, status)
	}
	kib, err := strconv.ParseFloat(fields[0], 64)
	return kib * 1024 / 1e6, err
}

// tick is the unit of processor time in /proc, the same on every Linux.
const tick = 10 * time.Millisecond

// CPU returns the processor time that a process has taken so far, in steps of
// 10 ms.
func CPU(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The second field is the program's name, which may contain anything.
	_, rest, found := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " ")
	fields := strings.Fields(rest)
	if !found || len(fields) < 13 {
		return 0, fmt.Errorf("no times in %s", stat)
	}
	var ticks int64
	for _, field := range fields[11:13] { // utime and stime
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * tick, nil
}

// Children returns the processes that a process has started.
func Children(pid int) ([]int, error) {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil, err
	}
	var found []int
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			return nil, err
		}
		for _, field := range strings.Fields(string(text)) {
			id, err := strconv.Atoi(field)
			if err != nil {
				return nil, err
			}
			found = append(found, id)
		}
	}
	return found, nil
}
