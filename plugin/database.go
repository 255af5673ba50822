package main

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/disk/durable"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/verbs"
	"github.com/helmdeck/repos/internal/workspace/mounter"
)

// openMeta opens the database. It renames a damaged database. A missing or damaged database is
// rebuilt from the manifests, because an empty database would lose existing data.
func openMeta(data, boot string, log *logrus.Logger) (*meta.DB, meta.State, error) {
	path := filepath.Join(data, databaseFile)
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		if err := rebuild(data, boot, log); err != nil {
			return nil, meta.State{}, err
		}
	}
	db, state, err := meta.Open(path)
	if !errors.Is(err, meta.ErrDamaged) {
		return db, state, err
	}
	aside, asideErr := meta.SetAside(path, time.Now())
	if asideErr != nil {
		return nil, meta.State{}, errors.Join(err, asideErr)
	}
	log.WithError(err).Errorf("the database is damaged: it is set aside as %s and rebuilt from the manifests", aside)
	failpoint.Hit("plugin/rebuild/aside")
	if err := rebuild(data, boot, log); err != nil {
		return nil, meta.State{}, err
	}
	return meta.Open(path)
}

// rebuild makes a database from the manifests. It has a temporary name until it is complete,
// because the next start would trust an incomplete database.
func rebuild(data, boot string, log *logrus.Logger) error {
	temp := filepath.Join(data, durable.TempPrefix+databaseFile)
	if err := os.Remove(temp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	db, _, err := meta.Open(temp)
	if err != nil {
		return err
	}
	failpoint.Hit("plugin/rebuild/empty")
	if err := errors.Join(fill(db, data, boot, log), db.Close()); err != nil {
		return err
	}
	failpoint.Hit("plugin/rebuild/filled")
	err = durable.Rename(temp, filepath.Join(data, databaseFile))
	failpoint.Hit("plugin/rebuild/renamed")
	return err
}

// fill fills an empty database from the manifests.
func fill(db *meta.DB, data, boot string, log *logrus.Logger) error {
	state, err := mounter.Rebuild(data, boot)
	if err != nil {
		return err
	}
	if state.Clones, err = clone.Rebuild(data); err != nil {
		return err
	}
	if state.Volumes, err = verbs.Rebuild(data); err != nil {
		log.WithError(err).Error("rebuild: volumes whose manifest can't be read are not listed")
	}
	return db.Update(func(tx *meta.Tx) error { return tx.Put(state) })
}
