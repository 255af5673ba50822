package siege

import (
	"fmt"
	"slices"
	"time"
)

// Sample is how long something took, each time.
type Sample []time.Duration

// Quantile is the time within which the share q of all were done; zero of an empty sample.
func (s Sample) Quantile(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// P50 is the median.
func (s Sample) P50() time.Duration { return s.Quantile(0.5) }

// P99 is what one of a hundred exceeds.
func (s Sample) P99() time.Duration { return s.Quantile(0.99) }

// Max is the longest.
func (s Sample) Max() time.Duration { return s.Quantile(1) }

// Times is how many times as long as quiet a time is.
func Times(attacked, quiet time.Duration) float64 { return float64(attacked) / float64(max(quiet, 1)) }

// Beside shows a figure beside its quiet value.
func Beside(quiet, attacked time.Duration) string {
	return fmt.Sprintf("%s>%s ms (%.1fx)", millis(quiet), millis(attacked), Times(attacked, quiet))
}

func millis(d time.Duration) string { return fmt.Sprintf("%.0f", float64(d)/float64(time.Millisecond)) }
