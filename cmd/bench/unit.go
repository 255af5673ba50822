package main

import (
	"fmt"
	"strconv"
)

// unit is the unit of a value.
type unit string

const (
	ms    unit = "ms"
	mib   unit = "MiB"
	count unit = "count"
	// roundTrips is the unit of a time as a multiple of a round trip to the remote.
	roundTrips unit = "round trips"
)

// format formats a value for people.
func (u unit) format(v float64) string {
	switch {
	case u == count:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case u == ms && v >= 1000:
		return fmt.Sprintf("%.2f s", v/1000)
	case u == mib && v >= 1024:
		return fmt.Sprintf("%.1f GiB", v/1024)
	case v >= 100:
		return fmt.Sprintf("%.0f %s", v, u)
	case v >= 10:
		return fmt.Sprintf("%.1f %s", v, u)
	}
	return fmt.Sprintf("%.2f %s", v, u)
}
