package gatewayapi

// putLabel has the route carry the Rollout's label while it is not at rest for it,
// and takes it away after the last Rollout that wants it. Where another Rollout has
// put a label of that key, its value stays: two that write theirs in turn would
// never come to rest.
func (d *draft) putLabel() {
	had := d.own.Label
	if d.own.isIdle() {
		d.own.Label = nil
		switch {
		case had != nil:
			d.dropLabel(*had)
		case d.leftBehind && d.ro.Label.Key != "":
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

// dropLabel takes a label away, or gives it the value that it had before, unless
// somebody has given it another value or another Rollout wants it.
func (d *draft) dropLabel(record labelRecord) {
	now, has := stringsOf(d.route, "labels")[record.Key]
	if has && now == record.Value && len(d.labelsOfOthers(record.Key)) == 0 {
		setMetadata(d.route, "labels", record.Key, record.Before)
	}
}

// labelsOfOthers are the labels of a key that other Rollouts have put.
func (d *draft) labelsOfOthers(key string) []labelRecord {
	var records []labelRecord
	for _, rollout := range d.state.keys() {
		if rollout == d.key() {
			continue
		}
		if label := d.state.entry(rollout).Label; label != nil && label.Key == key {
			records = append(records, *label)
		}
	}
	return records
}
