//go:build !linux

package main

import "syscall"

// dieWithParent does what it says on Linux only: elsewhere a killed demo can leave a stopped process behind.
func dieWithParent(attr *syscall.SysProcAttr) *syscall.SysProcAttr { return attr }
