// Command machine checks that the tests leave the machine as it was. Before them it notes what the
// machine has, and after them it prints each thing that is left, gone or changed, by its kind and
// name, and exits with code 1 if there is one.
//
//	machine note FILE      writes FILE
//	machine compare FILE   compares with FILE
//
// It looks at network interfaces and their addresses, rules of the firewall, forwarding, mounts,
// loop devices, control groups, processes, and files. Directories that programs write at any time,
// such as logs and caches, are left out, and so are build and Go's caches (see skipped). Processes
// count if they have to do with the tests: their environment has the variable that `make test` sets,
// or they use files of the tests.
//
//	-ignore PATTERNS   names that other programs may change meanwhile, as patterns of path.Match
//	                   separated by commas; a directory stands for all that is in it
//
// It needs root.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
)

func main() {
	ignore := flag.String("ignore", "", "the `patterns` of names to ignore, separated by commas")
	flag.Parse()
	if err := run(flag.Args(), strings.FieldsFunc(*ignore, func(r rune) bool { return r == ',' })); err != nil {
		fmt.Fprintln(os.Stderr, "machine:", err)
		os.Exit(1)
	}
}

func run(args, ignore []string) error {
	if len(args) != 2 || args[0] != "note" && args[0] != "compare" {
		return errors.New("want note FILE, or compare FILE")
	}
	if os.Geteuid() != 0 {
		return errors.New("needs root, to see all files and processes")
	}
	top, err := os.Getwd()
	if err != nil {
		return err
	}
	now, err := look(top)
	if err != nil {
		return err
	}
	if args[0] == "note" {
		return now.write(args[1])
	}
	before, err := read(args[1])
	if err != nil {
		return fmt.Errorf("nothing to compare with: %w", err)
	}
	differences, err := compare(before, now, ignore)
	if err != nil {
		return err
	}
	for _, line := range differences {
		fmt.Println("machine:", line)
	}
	if len(differences) > 0 {
		return fmt.Errorf("%d differences from before the tests; if another program made one, name it in OTHERS=pattern,pattern", len(differences))
	}
	fmt.Println("machine: it is as it was before the tests")
	return nil
}
