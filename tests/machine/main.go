// Command machine checks that the tests leave the machine as it was. Before them it notes what the
// machine has, and after them it prints each thing that is left, gone or changed, by its kind and
// name, and exits with code 1 if there is one.
//
//	machine note FILE      writes FILE
//	machine compare FILE   compares with FILE
//
// It looks at what a test could have made or deleted, by the names and places that tests use: the
// engine's bridges, mounts, loop devices, control groups, processes, directories for temporary files
// and the checkout, without build and .git. What else happens on the machine is no concern of it.
//
// It needs root.
package main

import (
	"errors"
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "machine:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
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
	differences := compare(before, now, top)
	for _, line := range differences {
		fmt.Println("machine:", line)
	}
	if len(differences) > 0 {
		return fmt.Errorf("%d differences from before the tests", len(differences))
	}
	fmt.Println("machine: it is as it was before the tests")
	return nil
}
