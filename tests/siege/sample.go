package siege

import (
	"fmt"
	"slices"
	"time"
)

// Sample is a list of measured durations.
type Sample []time.Duration

// Quantile returns the duration within which the share q of all were done, or zero if the sample is
// empty.
func (s Sample) Quantile(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// P50 returns the median.
func (s Sample) P50() time.Duration { return s.Quantile(0.5) }

// P99 returns the duration that one of a hundred exceeds.
func (s Sample) P99() time.Duration { return s.Quantile(0.99) }

// Max returns the longest duration.
func (s Sample) Max() time.Duration { return s.Quantile(1) }

// Ratio returns how many times as long as quiet attacked is.
func Ratio(attacked, quiet time.Duration) float64 { return float64(attacked) / float64(max(quiet, 1)) }

// Compare formats a duration on the quiet machine, the same under attack, and their ratio.
func Compare(quiet, attacked time.Duration) string {
	return fmt.Sprintf("%s>%s ms (%.1fx)", millis(quiet), millis(attacked), Ratio(attacked, quiet))
}

func millis(d time.Duration) string { return fmt.Sprintf("%.0f", float64(d)/float64(time.Millisecond)) }
