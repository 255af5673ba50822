package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// column is what a column of the table is about: a generated repository with so many files, or a
// real one.
type column struct {
	repo  string // the name of a bare repository below config.repos; empty for a generated one
	files int
}

func (c column) String() string {
	if c.repo == "" {
		return thousands(c.files) + " files"
	}
	if c.files == 0 { // not counted yet
		return c.repo
	}
	return fmt.Sprintf("%s (%s files)", c.repo, thousands(c.files))
}

// columns returns what to measure. The numbers of files of real repositories are counted when they
// are opened.
func (c config) columns() (list []column, err error) {
	if c.repos == "" {
		for _, files := range c.sizes {
			list = append(list, column{files: files})
		}
		return list, nil
	}
	for _, pattern := range []string{"*.git", "*/*.git"} {
		all, err := filepath.Glob(filepath.Join(c.repos, pattern))
		if err != nil {
			return nil, err
		}
		for _, path := range all {
			name, err := filepath.Rel(c.repos, path)
			if err != nil {
				return nil, err
			}
			list = append(list, column{repo: strings.TrimSuffix(name, ".git")})
		}
	}
	if len(list) == 0 {
		return nil, errors.New("no bare repository in " + c.repos + ": want NAME.git or OWNER/NAME.git there")
	}
	return list, nil
}

// columns returns what was measured, by the number of files.
func (r *report) columns() (list []column) {
	for _, s := range r.Rows {
		if !slices.Contains(list, s.column()) {
			list = append(list, s.column())
		}
	}
	slices.SortStableFunc(list, func(a, b column) int { return cmp.Compare(a.files, b.files) })
	return list
}
