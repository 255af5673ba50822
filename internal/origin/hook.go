package origin

import (
	"strconv"

	"github.com/sirupsen/logrus"
)

// Hook adds the origin to each log line that was made with a context (WithContext): the
// fields request and volume_id, and for a request on the admin socket uid and claim.
type Hook struct{}

// Levels implements logrus.Hook.
func (Hook) Levels() []logrus.Level { return logrus.AllLevels }

// Fire implements logrus.Hook.
func (Hook) Fire(e *logrus.Entry) error {
	if e.Context == nil {
		return nil
	}
	o := Of(e.Context)
	if o.Request != "" {
		e.Data["request"] = o.Request
	}
	if o.VolumeID != "" {
		e.Data["volume_id"] = o.VolumeID
	}
	if o.Actor.Kind == User {
		e.Data["uid"] = "unknown"
		if o.Actor.UID != Unknown {
			e.Data["uid"] = strconv.FormatInt(o.Actor.UID, 10)
		}
		if o.Actor.Claim != "" {
			e.Data["claim"] = o.Actor.Claim
		}
	}
	return nil
}
