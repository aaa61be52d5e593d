// Command fencepost gives out fenced leases on the command line: to scripts, to operators, and to the commands that it runs.
package main

import "os"

func main() {
	os.Exit(execute(os.Args[1:]))
}
