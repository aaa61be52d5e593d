package main

import "syscall"

// dieWithParent has the kernel kill a child when the thread that started it ends: a stopped process cannot notice by itself.
func dieWithParent(attr *syscall.SysProcAttr) *syscall.SysProcAttr {
	attr.Pdeathsig = syscall.SIGKILL
	return attr
}
