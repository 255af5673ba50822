package main

import (
	"fmt"
	"slices"
	"strings"
)

// highlights are the rows that come first, each with one peer. They are the questions that
// a reader has before the others.
var highlights = [...]struct{ ours, peer string }{
	{warmMount, freshClone},
	{warmMount, lsRemote},
	{warmMount, inPlace},
	{coldMount, freshClone},
	{updateMount, inPlacePush},
	{dockerWarm, dockerEmpty},
	{dockerCold, dockerClone},
	{remountRow(targetDirty), dirtyRow(targetDirty)},
	{modulesRow(targetModules), modulesCopy},
	{spaceRow(targetCrowd), cloneSpace(targetCrowd)},
	{farRow(warmMount), farRow(lsRemote)},
	{farRow(updateMount), farRow(inPlacePush)},
	{farRow(keptMount), farRow(inPlaceKept)},
}

// highlighted returns the table of the highlights that were measured, for the largest number of
// files, or nothing without any.
func (r *report) highlighted() string {
	var b strings.Builder
	for _, h := range highlights {
		for _, at := range slices.Backward(r.columns()) {
			if r.row(h.ours, at) != nil && r.row(h.peer, at) != nil {
				fmt.Fprintf(&b, "| **%s** | %s | %s | %s |\n", h.ours, r.cell(h.ours, "", at), h.peer, r.cell(h.peer, h.ours, at))
				break
			}
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "These rows are those of the largest repository that was measured.\n\n| with the plugin | | without | |\n| --- | ---: | --- | ---: |\n" + b.String() + "\n"
}
