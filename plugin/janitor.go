package main

import (
	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/janitor"
)

// newJanitor returns the janitor that the settings describe. It does nothing by
// itself until it runs.
func newJanitor(l limits, s *stock, log *logrus.Logger) *janitor.Janitor {
	return janitor.New(janitor.Config{Stock: s, Limits: l.Limits, Interval: l.sweepInterval, WarnSize: l.warnSize, Log: log})
}
