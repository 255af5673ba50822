package main

import (
	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/trash"
	"github.com/helmdeck/repos/janitor"
)

// newJanitor returns the janitor that the settings describe, which does nothing by
// itself until it runs, and its stock, which is to be opened.
func newJanitor(l limits, at places, bin *trash.Trash, log *logrus.Logger) (*janitor.Janitor, *stock) {
	goods := &stock{data: at.data, bin: bin, now: at.clock(), opened: make(chan struct{})}
	return janitor.New(janitor.Config{
		Stock: goods, Limits: l.Limits, Interval: l.sweepInterval, WarnSize: l.warnSize, Log: log,
	}), goods
}

// warningsOf returns what Status says of what the janitor has found: only of the
// volume and its own clone, for others may be another subject's.
func warningsOf(keeper *janitor.Janitor) func(volume, cloneKey string) []string {
	return func(volume, cloneKey string) []string {
		list := []string{}
		for _, f := range keeper.Findings() {
			if f.Clone == cloneKey && (f.Volume == volume || f.Volume == "") {
				list = append(list, f.Text)
			}
		}
		return list
	}
}
