package gatewayapi

// putLabel sets the owner's label on the route while the route is not at rest for
// the owner, and removes it after the last owner that wants it. If another owner
// has set a label with that key, its value stays: two owners that overwrite each
// other's value in turn would never come to rest.
func (d *draft) putLabel() {
	had := d.own.Label
	if d.own.isIdle() {
		d.own.Label = nil
		switch {
		case had != nil:
			d.dropLabel(*had)
		case d.unrecorded && d.ro.Label.Key != "":
			d.dropLabel(labelRecord{Label: d.ro.Label})
		}
		return
	}
	if d.ro.Unconfigured {
		return
	}
	if had != nil && had.Key != d.ro.Label.Key {
		d.dropLabel(*had)
		had = nil
	}
	if d.ro.Label.Key == "" {
		d.own.Label = nil
		return
	}
	record := labelRecord{Label: d.ro.Label}
	now, has := stringsOf(d.route, "labels")[record.Key]
	others := d.labelsOfOthers(record.Key)
	switch {
	case len(others) > 0:
		record = others[0]
	case had != nil:
		record.Before = had.Before
	case has && now != record.Value:
		record.Before = &now
	}
	d.own.Label = &record
	if !has || now != record.Value {
		setMetadata(d.route, "labels", record.Key, &record.Value)
	}
}

// dropLabel removes a label, or restores the value that it had before, unless another
// writer has changed the value or another owner wants the label.
func (d *draft) dropLabel(record labelRecord) {
	now, has := stringsOf(d.route, "labels")[record.Key]
	if has && now == record.Value && len(d.labelsOfOthers(record.Key)) == 0 {
		setMetadata(d.route, "labels", record.Key, record.Before)
	}
}

// labelsOfOthers are the labels with a key that other owners have set.
func (d *draft) labelsOfOthers(key string) []labelRecord {
	var records []labelRecord
	for _, owner := range d.state.keys() {
		if owner == d.key() {
			continue
		}
		if label := d.state.entries[owner].Label; label != nil && label.Key == key {
			records = append(records, *label)
		}
	}
	return records
}
