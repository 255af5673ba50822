package main

import (
	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/trash"
	"github.com/helmdeck/repos/janitor"
)

// newJanitor returns the janitor for the settings, and its stock, which must be opened.
func newJanitor(l limits, at places, tr *trash.Trash, log *logrus.Logger) (*janitor.Janitor, *stock) {
	s := &stock{data: at.data, trash: tr, now: at.clock(), opened: make(chan struct{})}
	return janitor.New(janitor.Config{
		Stock: s, Limits: l.Limits, Interval: l.sweepInterval, WarnSize: l.warnSize, Log: log,
	}), s
}

// warningsOf returns a function that returns the janitor's findings for a volume's
// Status: only those about the volume and its clone, because others may be another
// subject's.
func warningsOf(jan *janitor.Janitor) func(volume, cloneKey string) []string {
	return func(volume, cloneKey string) []string {
		list := []string{}
		for _, f := range jan.Findings() {
			if f.Clone == cloneKey && (f.Volume == volume || f.Volume == "") {
				list = append(list, f.Text)
			}
		}
		return list
	}
}
